"""`kshot train`: phase 1 on a data set, with a checkpoint every epoch, and a backbone file at the end.

With `--method`, one of the paper's competitors by episodes, and a file of that method at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kshot.errors import UserError
from kshot.training import require_torch

if TYPE_CHECKING:
    from rich.console import Console

    from kshot.datasets.splits import Split
    from kshot.training.distillation import Distillation
    from kshot.training.episodic.recipe import EpisodicRecipe
    from kshot.training.recipe import Recipe
    from kshot.training.rotation import Rotation

__all__ = ["train"]


def train(
    data: Annotated[
        str,
        typer.Option(
            help="cifar100 or miniimagenet (looked for in $KSHOT_DATA), or a folder: theirs, or class folders."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for checkpoint, log, curves and the backbone file.")],
    recipe: Annotated[str | None, typer.Option(help="Name of a recipe; by default the one for the data set.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Train by episodes: protonet, matching, matching-fce or meta-lstm.")
    ] = None,
    ways: Annotated[int | None, typer.Option(min=2, help="With --method: classes of an episode.")] = None,
    shots: Annotated[int | None, typer.Option(min=1, help="With --method: examples of each; by default 5.")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="With --method: queries of each.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="With --method: steps of an epoch.")] = None,
    size: Annotated[int | None, typer.Option(min=16, help="With --method: side of the images in pixels.")] = None,
    network: Annotated[str | None, typer.Option(help="With --method: the network that embeds the images.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Stretch or shrink the recipe's phases to so many.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images (with --method: episodes) per step, over all processes.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0, help="Peak of the learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option(min=0, help="λ of ½λ‖W‖² on the regularised weights.")] = None,
    last_decay: Annotated[
        float | None, typer.Option(min=0, help="λ of the last layer; it sets the prior's σ².")
    ] = None,
    distillation: Annotated[
        float | None,
        typer.Option(
            max=1, help="With --start: part of the loss by what that network says of the images, such as 0.5."
        ),
    ] = None,
    rotation: Annotated[
        float | None,
        typer.Option(max=1, help="Part of the images that are turned, by an angle that is learned too, such as 0.5."),
    ] = None,
    split: Annotated[
        str, typer.Option(help="CIFAR-100: paper (80 + 20 classes) or cifar-fs (64 + 16 + 20).")
    ] = "paper",
    leave_out: Annotated[int, typer.Option(min=0, help="Base classes to leave out, to choose and calibrate on.")] = 0,
    images_per_class: Annotated[
        int | None, typer.Option(min=1, help="Train on the first so many images a class; keep the rest for testing.")
    ] = None,
    on_error: Annotated[str, typer.Option(help="What to do with a damaged image: skip or refuse.")] = "skip",
    seed: Annotated[int, typer.Option(help="Decides initial weights, order, augmentation and dropout.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Processes, one per device; torchrun's settings come first.")] = 1,
    precision: Annotated[str, typer.Option(help="auto (whichever is faster here), bf16 or float32.")] = "auto",
    weights: Annotated[str, typer.Option(help="Which weights to export: averaged or raw.")] = "averaged",
    start: Annotated[
        Path | None,
        typer.Option(
            help="Begin with the weights of a run on the same classes: its folder, or a backbone (file or name)."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the checkpoint in --out, if there is one.")] = False,
    stop_after: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many epochs of the plan; go on later with --resume.")
    ] = None,
) -> None:
    """Train a network on the base classes of a data set and write it as a backbone that runs without torch."""
    for option, value, allowed in (
        ("--split", split, ("paper", "cifar-fs")),
        ("--on-error", on_error, ("skip", "refuse")),
        ("--weights", weights, ("averaged", "raw")),
    ):
        if value not in allowed:
            raise UserError(f"{option} must be {' or '.join(allowed)}, not {value!r}")
    require_torch()
    common = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate}
    by_batches: dict[str, Any] = {"recipe": recipe, "weight_decay": weight_decay, "last_decay": last_decay}
    by_batches |= {"distillation": _distillation(distillation), "rotation": _rotation(rotation)}
    by_episodes: dict[str, Any] = {"ways": ways, "shots": shots, "queries": queries, "episodes": episodes}
    by_episodes |= {"size": size, "network": network}
    _refuse(by_episodes if method is None else by_batches, method)
    from kshot.datasets.locate import locate

    folder = locate(data)
    plan: Recipe | EpisodicRecipe
    if method is None:
        plan = _recipe(by_batches.pop("recipe"), folder).changed(**common, **by_batches)
    else:
        plan = _episodic(method, folder, by_episodes).changed(**common)
    if (out / "checkpoint.pt").exists() and not resume:
        raise UserError(f"{out} already holds a training run: go on with --resume, or give another --out")
    images = _open(folder, plan, split, leave_out, images_per_class, on_error)
    options: dict[str, Any] = {"seed": seed, "device": device, "devices": devices, "precision": precision}
    options |= {"start": _start(start, method), "resume": resume, "stop_after": stop_after}
    _run(folder, images, plan, out, weights, options)


def _distillation(weight: float | None) -> Distillation | None:
    from kshot.training.distillation import Distillation

    return None if weight is None else Distillation(weight)


def _rotation(part: float | None) -> Rotation | None:
    from kshot.training.rotation import Rotation

    return None if part is None else Rotation(part)


def _start(start: Path | None, method: str | None) -> Path | None:
    """Give the run's folder or the backbone's file that --start names."""
    from kshot.backbones import names

    if start is None or start.is_dir():
        return start
    path = names.bundled().get(str(start), start)
    if method is not None and path.is_file():
        raise UserError(f"--start: {start} is a backbone, and --method {method} starts from a run's folder")
    return path


def _refuse(options: dict[str, Any], method: str | None) -> None:
    """Refuse options of the other kind of training rather than pass over them."""
    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        option = f"--{given.replace('_', '-')}"
        remedy = "give --method too, or leave it out" if method is None else f"leave it out with --method {method}"
        raise UserError(f"{option} belongs to training by {'episodes' if method is None else 'batches'}: {remedy}")


def _episodic(method: str, folder: Path, options: dict[str, Any]) -> EpisodicRecipe:
    from kshot.datasets.locate import data_set
    from kshot.training.episodic.recipe import recipe_for

    plan = recipe_for(
        method, data_set(folder), ways=options["ways"], shots=options["shots"] or 5, network=options["network"]
    )
    return plan.changed(queries=options["queries"], episodes=options["episodes"], size=options["size"])


def _recipe(name: str | None, folder: Path) -> Recipe:
    from kshot.datasets.locate import data_set
    from kshot.training.recipe import RECIPES

    name = name or _RECIPE_OF[data_set(folder)]
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}: choose one of {', '.join(sorted(RECIPES))}")
    return RECIPES[name]


_RECIPE_OF = {"cifar100": "vgg-cifar100", "miniimagenet": "resnet34-miniimagenet", None: "vgg-miniimagenet"}


def _open(folder: Path, plan: Any, split: Any, leave_out: int, images_per_class: int | None, on_error: Any) -> Split:
    from kshot.datasets.splits import open_data

    size = max(phase.whole for phase in plan.phases) if hasattr(plan, "phases") else plan.size
    return open_data(
        folder, split=split, leave_out=leave_out, images_per_class=images_per_class, size=size, on_error=on_error
    )


def _run(
    folder: Path, images: Split, plan: Recipe | EpisodicRecipe, out: Path, weights: str, options: dict[str, Any]
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    _begin(console, folder, images, plan)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=None)

        def report(epoch: int, step: int, steps: int, loss: float) -> None:
            done, total = epoch * steps + step, plan.epochs * steps
            progress.update(task, completed=done, total=total, description=f"epoch {epoch + 1}, loss {loss:.3f}")

        say = lambda line: console.print(line, soft_wrap=True)  # noqa: E731
        done, write = _train(images, plan, out, weights, options | {"report": report, "say": say})
    if done < plan.epochs:
        console.print(f"stopped after epoch {done} of {plan.epochs}; go on with --resume")
    if int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0:
        path = write()
        console.print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


def _train(
    images: Split, plan: Recipe | EpisodicRecipe, out: Path, weights: str, options: dict[str, Any]
) -> tuple[int, Callable[[], Path]]:
    """Train by batches or by episodes; give the epochs done, and what writes the result."""
    from kshot.training.recipe import Recipe

    if isinstance(plan, Recipe):
        from kshot.training.checkpoint import export_trained
        from kshot.training.trainer import train as by_batches

        trained = by_batches(images.base, plan, out=out, test=images.base_test, **options)

        def backbone() -> Path:
            export_trained(trained, out / "backbone.safetensors", weights=weights, source=images.source)
            return out / "backbone.safetensors"

        return trained.epoch, backbone

    from kshot.training.episodic.methods import to_model
    from kshot.training.episodic.trainer import train_episodic

    # Classes that were left out say more of new ones than other images of the classes it learns from.
    result = train_episodic(images.base, plan, out=out, test=images.left_out or images.base_test, **options)

    def model() -> Path:
        to_model(result, weights=weights, data=images.source).save(out / "episodic.safetensors")
        return out / "episodic.safetensors"

    return result.epoch, model


def _begin(console: Console, folder: Path, images: Split, plan: Recipe | EpisodicRecipe) -> None:
    """Say what is trained on what, and what was skipped."""
    from kshot.cli.paths import relative
    from kshot.cli.printing import listing, visible
    from kshot.training.recipe import Recipe

    if isinstance(plan, Recipe):
        what = f"{plan.network}, {plan.epochs} epochs, batch {plan.batch}"
    else:
        what = f"{plan.method} on {plan.network}, {plan.epochs} × {plan.episodes} episodes of {plan.ways} classes"
        what += f" with {plan.shots} examples and {plan.queries} queries"
    base = images.base
    console.print(f"{images.source}: {len(base):,} images of {len(base.names)} base classes; {what}", soft_wrap=True)
    named = [f"{visible(relative(skipped.path, folder))} ({skipped.reason})" for skipped in images.skipped]
    for line in listing(f"skipped {len(named)}", named):
        console.print(line, soft_wrap=True, markup=False)
