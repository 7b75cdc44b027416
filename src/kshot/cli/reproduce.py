"""`kshot reproduce`: the paper's tables and figures, and a page that says what of it held."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kshot.experiments.claims import Verdict
    from kshot.experiments.plan import Plan
    from kshot.features import Features

__all__ = ["reproduce"]


def reproduce(
    data: Annotated[str, typer.Argument(help="Whose results: cifar100 or miniimagenet.")],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for tables, figures and index.html; made if it is not there.")
    ] = Path("report"),
    nuts: Annotated[
        bool, typer.Option("--nuts/--no-nuts", help="With or without the rows that sample (most of the time).")
    ] = True,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME...", help="These parts only, such as table9 figure2.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=20, help="Tasks at each number of shots; fewer for a quick look.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Decides tasks, splits and draws.")] = 0,
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[LABEL=]NAME_OR_FILE",
            help="Features in place of the bundled ones; repeat it for several networks (resnet34, resnet34-600, "
            "resnet34-500, vgg-500, or any label).",
        ),
    ] = None,
) -> None:
    """Regenerate the paper's tables and figures from features, and hold its claims against them.

    Open index.html in the folder. What is finished is kept in its folder
    cache/, so that a run that was stopped goes on from there.
    """
    from kshot.cli.outputs import check_folder_writable
    from kshot.errors import UserError
    from kshot.experiments.plan import carry_out, choose
    from kshot.experiments.result import Options

    start = time.perf_counter()
    plan, main = _plan(data, features or [])
    if more and not only:
        raise UserError(f"{' '.join(more)}: parts are named after --only, as in --only {' '.join(more)}")
    names = choose(plan, [*(only or []), *(more or [])])
    if nuts and "figure10" in names:
        _check_sampler()
    check_folder_writable(out, "--out")
    out.mkdir(parents=True, exist_ok=True)
    with _progress() as tell:
        repeated = max(20, tasks // 30 * 10)
        options = Options(tasks=tasks, repeated=repeated, seed=seed, nuts=nuts, cache=out / "cache", progress=tell)
        asked = names if only else []
        command = _command(data, nuts, only, more, tasks, seed, features or [])
        verdicts = carry_out(plan, main, out, options=options, only=asked, command=command)
    _report(verdicts, {} if only else plan.absent, out, time.perf_counter() - start)


def _plan(data: str, given: list[str]) -> tuple[Plan, Features]:
    """Give what is to be run and the features of its main network, read before anything is written."""
    from kshot.errors import UserError
    from kshot.experiments.networks import load_networks

    if data == "miniimagenet":
        from kshot.experiments.miniimagenet import miniimagenet

        networks = load_networks(given)
        return miniimagenet(networks), networks.by_label[networks.main]
    if data == "cifar100":
        from kshot.experiments.cifar100 import CIFAR100, cifar100

        if len(given) > 1:
            raise UserError("--features: the results of cifar100 are those of one network: give one")
        networks = load_networks(given or [CIFAR100.features])
        main = networks.by_label[networks.main]
        return cifar100(main), main
    raise UserError(f"there is nothing to reproduce for {data!r}: the results are those of cifar100, miniimagenet")


def _check_sampler() -> None:
    """Say at once that the sampler's packages are missing, not after minutes."""
    from kshot.errors import MissingExtraError, UserError

    try:
        import kshot.inference.nuts  # noqa: F401
    except MissingExtraError as error:
        raise UserError(f"{error}; or leave out the rows that sample: --no-nuts") from None


def _command(
    data: str, nuts: bool, only: list[str] | None, more: list[str] | None, tasks: int, seed: int, features: list[str]
) -> str:
    words = ["kshot", "reproduce", data]
    words += [] if nuts else ["--no-nuts"]
    words += ["--only", *(only or []), *(more or [])] if only else []
    words += [] if tasks == 600 else ["--tasks", str(tasks)]
    words += [] if seed == 0 else ["--seed", str(seed)]
    for each in features:
        words += ["--features", each]
    return shlex.join(words)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done and for how long, on a terminal; nothing when piped."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("...")
        yield lambda step: bar.update(task, description=step)


def _report(verdicts: list[Verdict], absent: Mapping[str, str], out: Path, seconds: float) -> None:
    from rich.console import Console

    console: Console = Console(soft_wrap=True, highlight=False)
    signs = {True: "[green]held[/]        ", False: "[red]did not hold[/]", None: "not tested  "}
    for each in verdicts:
        if each.held is not None:
            console.print(f"{signs[each.held]}  {each.claim.short}{' (ours)' if each.claim.ours else ''}")
    for name, why in absent.items():
        console.print(f"not run       {name}: {why}", markup=False)
    untested = sum(each.held is None for each in verdicts)
    rest = f" {untested} claims were not tested." if untested else ""
    console.print(
        f"\n{out / 'index.html'}: the figures, and each claim beside them.{rest} {seconds:.0f} s", markup=False
    )
