"""`kshot evaluate`: k-shot tasks drawn from a folder of photographs, judged by several methods."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kshot.cli.options import DEFAULT_BACKBONE, Device, Preprocessing, WhichBackbone
from kshot.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from kshot.backbones import Backbone
    from kshot.evaluation.runner import Outcome
    from kshot.features import Features
    from kshot.photos.gathering import Gathered
    from kshot.photos.protocol import Protocol

__all__ = ["evaluate"]

METHODS = ("gauss-iso-calibrated", "gauss-iso-calibrated:laplace", "nearest", "temperature")
UNCALIBRATED = ("gauss-iso", "gauss-iso:laplace", "nearest")
FEATURES_ALONE = ("nearest", "svm")


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder with a subfolder of photographs for each class.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables (CSV) and the calibration curves.")],
    shots: Annotated[str, typer.Option(help="Numbers of examples per class.")] = "1,5,10",
    ways: Annotated[int | None, typer.Option(help="Classes in a task; by default 5, or all there are.")] = None,
    tasks: Annotated[int, typer.Option(min=2, help="Tasks at each number of examples.")] = 600,
    queries: Annotated[int, typer.Option(min=1, help="Queries per class, if there are enough photographs.")] = 15,
    methods: Annotated[
        str | None,
        typer.Option(help=f"Names of methods, with commas between; by default {','.join(METHODS)}, or what can be."),
    ] = None,
    backbone: WhichBackbone = DEFAULT_BACKBONE,
    preprocessing: Preprocessing = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the tasks.")] = 0,
    device: Device = "cpu",
) -> None:
    """Find out how well new classes are learned from a few of these photographs, and how far to trust the answers.

    Each task takes some of the folder's classes, learns them from a few photographs each, and is asked about others.
    """
    from kshot.cli.outputs import check_folder_writable
    from kshot.cli.paths import existing_folder
    from kshot.cli.printing import say, visible
    from kshot.evaluation.runner import table
    from kshot.photos.protocol import choose_protocol

    numbers = _numbers(shots)
    names = None if methods is None else _names(methods, seed)
    check_folder_writable(out, "--out")
    existing_folder(str(folder))
    start = time.perf_counter()
    network, gathered = _gather(folder, backbone, preprocessing, device)
    protocol = choose_protocol(gathered.examples.counts, shots=numbers, ways=ways, queries=queries)
    _describe(folder, gathered, protocol, tasks, time.perf_counter() - start)
    out.mkdir(parents=True, exist_ok=True)  # now that there will be something in it, and before the work
    start = time.perf_counter()
    names = _possible(network) if names is None else names
    outcomes = _run(_features(network, gathered, protocol, folder), names, protocol, tasks, seed)
    seconds = time.perf_counter() - start
    title = f"{folder.resolve().name}: {protocol.ways} classes at a time, {tasks} tasks"
    results = table(outcomes)
    written = _write(results, outcomes, out, title)
    _print(results)
    fits = len(names) * tasks * len(protocol.shots)
    say(f"\n{', '.join(visible(str(path)) for path in written)} ({fits} fits in {seconds:.1f} s)")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--shots {text} is not a list of whole numbers such as 1,5,10") from None


def _names(methods: str, seed: int) -> list[str]:
    """Read `--methods`, and refuse an unknown one before the photographs are read."""
    from kshot.evaluation.methods import resolve

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise UserError(f"--methods names no method; by default they are {','.join(METHODS)}")
    for name in names:
        resolve(name, seed=seed)
    return names


def _possible(network: Backbone) -> list[str]:
    """Give the methods that a backbone has the numbers for."""
    from kshot.concepts import Calibration

    # One's own network may have the name of a bundled one, and needs other numbers.
    if Calibration.bundled_file(network.name).get("hash") == network.hash:
        return list(METHODS)
    return list(UNCALIBRATED if network.base_weights is not None else FEATURES_ALONE)


def _gather(folder: Path, backbone: str, preprocessing: str | None, device: str) -> tuple[Backbone, Gathered]:
    from kshot.backbones import Backbone
    from kshot.cli.models import parse_preprocessing
    from kshot.cli.printing import progress
    from kshot.photos.gathering import gather

    network = Backbone.load(backbone, preprocessing=parse_preprocessing(preprocessing), device=device)
    with progress("photographs") as report:
        return network, gather(folder, network, report=report)


def _features(network: Backbone, gathered: Gathered, protocol: Protocol, folder: Path) -> Features:
    import numpy as np

    from kshot.features import Features

    examples = gathered.examples
    index = {name: label for label, name in enumerate(protocol.classes)}
    labels = np.array([index.get(name, -1) for name in examples.names])
    kept = labels >= 0
    return Features(
        examples.X[kept],
        labels[kept],
        names=protocol.classes,
        base_weights=network.base_weights,
        base_bias=network.base_bias,
        base_names=network.base_names,
        source={
            "backbone": {"name": network.name, "hash": network.hash},
            "data": f"folder {folder.resolve().name}",
            "images": [file for file, own in zip(examples.files, kept, strict=True) if own],
        },
    )


def _run(features: Features, names: list[str], protocol: Protocol, tasks: int, seed: int) -> list[Outcome]:
    from rich.console import Console

    from kshot.evaluation.runner import run

    numbers: dict[str, Any] = {"ways": protocol.ways, "shots": protocol.shots, "queries": protocol.queries}
    with Console(stderr=True).status("...") as status:
        return list(
            run(
                features,
                names,
                tasks=tasks,
                seed=seed,
                progress=lambda method, shots: status.update(f"{method}, {shots} examples per class"),
                **numbers,
            )
        )


def _describe(folder: Path, gathered: Gathered, protocol: Protocol, tasks: int, seconds: float) -> None:
    """Say what there is, what was passed over, and which tasks follow."""
    from kshot.cli.paths import relative
    from kshot.cli.printing import listing, say, visible

    examples, skipped = gathered.examples, gathered.skipped
    counts = f"{len(examples.classes)} classes, {len(examples)} photographs"
    say(f"{visible(str(folder))}   {counts}, features in {seconds:.1f} s")
    passed = [visible(f"{relative(one.path, folder)} ({one.reason})") for one in skipped]
    for line in listing(f"  skipped {len(passed)}", passed):
        say(line)
    twice = [" and ".join(visible(f"{name}/{file}") for name, file in found) for found in examples.in_two_classes()]
    for line in listing("  the same photograph in two classes, which spoils the figures", twice):
        say(line)
    few = [f"{visible(name)} ({examples.counts[name]})" for name in protocol.left_out]
    for line in listing("  left out, too few photographs", few):
        say(line)
    if protocol.too_many:
        asked = " or ".join(str(k) for k in protocol.too_many)
        say(f"  no tasks with {asked} examples: fewer than {protocol.ways} classes have so many and one more to ask")
    shots = ", ".join(str(k) for k in protocol.shots[:-1]) + (" or " if len(protocol.shots) > 1 else "")
    say(
        f"{tasks} tasks: {protocol.ways} of {len(protocol.classes)} classes, {shots}{protocol.shots[-1]} examples of "
        f"each, {protocol.queries} other photographs of each to tell apart\n"
    )


def _print(results: pd.DataFrame) -> None:
    from rich.console import Console

    from kshot.cli.printing import say
    from kshot.cli.tables import results_table

    # A pipe has no width: give the table the room it needs.
    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.capture() as capture:
        console.print(results_table(results, digits=3))
    say(capture.get().rstrip("\n"))


def _write(results: pd.DataFrame, outcomes: list[Outcome], out: Path, title: str) -> list[Path]:
    """Write the table, each task's figures, and the calibration curves."""
    from kshot.evaluation.runner import per_task
    from kshot.files import atomic_path
    from kshot.plots.reliability import reliability_figure
    from kshot.plots.style import save

    for name, frame in (("results.csv", results), ("per_task.csv", per_task(outcomes))):
        with atomic_path(out / name) as temporary:
            frame.to_csv(temporary, index=False)
    curves: dict[int, dict[str, Any]] = {}
    for outcome in outcomes:
        if outcome.has_proba:
            curves.setdefault(outcome.shots, {})[outcome.method] = outcome.curve()
    written = [out / "results.csv", out / "per_task.csv"]
    if curves:
        figure = reliability_figure(curves, title=title)
        for path in (out / "calibration.png", out / "calibration.svg"):
            save(figure, path)
            written.append(path)
    return written
