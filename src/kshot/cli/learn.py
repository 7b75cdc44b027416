"""`kshot learn`: from a folder of photographs to a model file, with an honest word on how good it will be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kshot.cli.options import DEFAULT_BACKBONE, Device, Preprocessing, Profile, Threads, WhichBackbone

__all__ = ["learn"]


def learn(
    folder: Annotated[str, typer.Argument(help="A folder with a subfolder of photographs for each class.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model file to write; by default FOLDER.kshot.")
    ] = None,
    backbone: WhichBackbone = DEFAULT_BACKBONE,
    preprocessing: Preprocessing = None,
    base_images: Annotated[
        str | None,
        typer.Option(help="Photographs of the backbone's own classes, to calibrate one that is not bundled."),
    ] = None,
    device: Device = "cpu",
    threads: Threads = None,
    profile: Profile = False,
) -> None:
    """Learn the classes of a folder of photographs, and estimate how good the result will be."""
    from kshot.cli.models import parse_preprocessing, print_found, print_learned
    from kshot.cli.paths import check_writable, default_model, existing_folder
    from kshot.cli.printing import progress
    from kshot.cli.timing import Stopwatch

    watch = Stopwatch()
    source = existing_folder(folder)
    path = default_model(source) if out is None else out
    check_writable(path, reads=(backbone, preprocessing))
    if base_images is not None:
        existing_folder(base_images)
    watch.phase("imports")
    from kshot.photos.learning import learn as run

    with progress("photograph") as report:
        learned = run(
            source,
            backbone=backbone,
            preprocessing=parse_preprocessing(preprocessing),
            base_images=base_images,
            device=device,
            threads=threads,
            report=report,
            phase=watch.phase,
        )
    watch.phase("writing the model")
    learned.model.save(path)
    watch.phase("the report")
    print_found(folder, learned)
    print_learned(learned.model, path, watch.seconds)
    if profile:
        watch.print()
