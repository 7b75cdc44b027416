"""`kshot add`: more photographs or classes for a model; the old photographs are not needed."""

from __future__ import annotations

from typing import Annotated

import typer

from kshot.cli.options import Device, ItsBackbone, Profile, Threads
from kshot.errors import UserError

__all__ = ["add"]


def add(
    model: Annotated[str, typer.Argument(help="The model file; it is replaced.")],
    folder: Annotated[str, typer.Argument(help="A folder with a subfolder of photographs for each class.")],
    backbone: ItsBackbone = None,
    device: Device = "cpu",
    threads: Threads = None,
    profile: Profile = False,
) -> None:
    """Learn new classes, or more photographs of old ones, into a model."""
    from kshot.cli.changing import Changing
    from kshot.cli.models import print_found, print_learned
    from kshot.cli.paths import existing_folder
    from kshot.cli.printing import progress
    from kshot.cli.timing import Stopwatch

    watch = Stopwatch()
    changing = Changing.open(model)
    source = existing_folder(folder)
    watch.phase("imports")
    from kshot.photos.learning import add as run

    with progress("photograph") as report:
        learned = run(
            changing.model,
            source,
            backbone=backbone,
            device=device,
            threads=threads,
            report=report,
            phase=watch.phase,
        )
    if not len(learned.read):
        raise UserError(f"{folder} brings nothing new: {changing.path} has learned from all its photographs already")
    watch.phase("writing the model")
    changing.save(learned.model)
    watch.phase("the report")
    print_found(folder, learned)
    print_learned(learned.model, changing.path, watch.seconds)
    if profile:
        watch.print()
