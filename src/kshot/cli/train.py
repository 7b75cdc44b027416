"""`kshot train`: phase 1 on a data set, with a checkpoint every epoch, and a backbone file at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kshot.errors import UserError
from kshot.training import require_torch

if TYPE_CHECKING:
    from kshot.datasets.splits import Split
    from kshot.training.recipe import Recipe

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
    epochs: Annotated[int | None, typer.Option(min=1, help="Stretch or shrink the recipe's phases to so many.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images per step, over all processes.")] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0, help="Peak of the learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option(min=0, help="λ of ½λ‖W‖² on the regularised weights.")] = None,
    last_decay: Annotated[
        float | None, typer.Option(min=0, help="λ of the last layer; it sets the prior's σ².")
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
    plan = _recipe(recipe, data).changed(
        epochs=epochs, batch=batch, learning_rate=learning_rate, weight_decay=weight_decay, last_decay=last_decay
    )
    if (out / "checkpoint.pt").exists() and not resume:
        raise UserError(f"{out} already holds a training run: go on with --resume, or give another --out")
    images = _open(data, plan, split, leave_out, images_per_class, on_error)
    _run(images, plan, out, seed, device, devices, precision, weights, resume, stop_after)


def _recipe(name: str | None, data: str) -> Recipe:
    from kshot.training.recipe import RECIPES

    if name is None:
        lower = data.lower()
        name = next((known for word, known in _RECIPE_OF.items() if word in lower), "vgg-miniimagenet")
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}: choose one of {', '.join(sorted(RECIPES))}")
    return RECIPES[name]


_RECIPE_OF = {"cifar": "vgg-cifar100", "imagenet": "resnet34-miniimagenet"}


def _open(data: str, plan: Recipe, split: Any, leave_out: int, images_per_class: int | None, on_error: Any) -> Split:
    from kshot.datasets.splits import open_data

    root = Path(data)
    if data in ("cifar100", "miniimagenet") and not root.is_dir():
        if "KSHOT_DATA" not in os.environ:
            raise UserError(f"set KSHOT_DATA to the folder that holds {data}, or give that folder by --data")
        root = Path(os.environ["KSHOT_DATA"])
        if data == "miniimagenet":
            root = next((root / name for name in ("mini-imagenet", "miniimagenet") if (root / name).is_dir()), root)
    size = max(phase.size for phase in plan.phases)
    return open_data(
        root, split=split, leave_out=leave_out, images_per_class=images_per_class, size=size, on_error=on_error
    )


def _run(
    images: Split, plan: Recipe, out: Path, seed: int, device: str, devices: int, precision: str, weights: str,
    resume: bool, stop_after: int | None,
) -> None:  # fmt: skip
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from kshot.training.checkpoint import export_trained
    from kshot.training.trainer import train as run

    console = Console(stderr=True)
    console.print(
        f"{images.source}: {len(images.base):,} images of {len(images.base.names)} base classes; "
        f"{plan.network}, {plan.epochs} epochs, batch {plan.batch}",
        soft_wrap=True,
    )
    if images.skipped:
        some = ", ".join(f"{skipped.path.name} ({skipped.reason})" for skipped in images.skipped[:5])
        console.print(
            f"skipped {len(images.skipped)}: {some}{', ...' if len(images.skipped) > 5 else ''}", soft_wrap=True
        )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=None)

        def report(epoch: int, step: int, steps: int, loss: float) -> None:
            done, total = epoch * steps + step, plan.epochs * steps
            progress.update(task, completed=done, total=total, description=f"epoch {epoch + 1}, loss {loss:.3f}")

        trained = run(
            images.base,
            plan,
            out=out,
            test=images.base_test,
            seed=seed,
            device=device,
            devices=devices,
            precision=precision,
            resume=resume,
            stop_after=stop_after,
            report=report,
            say=lambda line: console.print(line, soft_wrap=True),
        )
    if trained.epoch < plan.epochs:
        console.print(f"stopped after epoch {trained.epoch} of {plan.epochs}; go on with --resume")
    if int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0:
        path = out / "backbone.safetensors"
        export_trained(trained, path, weights=weights, source=images.source)
        console.print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
