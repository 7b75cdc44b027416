"""`kshot learn`: from a folder of photographs to a model file, with an honest word on how good it will be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kshot.cli.options import DEFAULT_BACKBONE, Device, Preprocessing, Profile, Threads, WhichBackbone
from kshot.errors import FileFormatError, UserError

if TYPE_CHECKING:
    from kshot.photos.model import PhotoModel

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
    from kshot.cli.models import parse_preprocessing, print_found, print_learned, print_replaced
    from kshot.cli.outputs import check_writable
    from kshot.cli.paths import default_model, existing_folder
    from kshot.cli.printing import progress
    from kshot.cli.timing import Stopwatch
    from kshot.files import content_hash, unchanged

    watch = Stopwatch()
    source = existing_folder(folder)
    path = default_model(source) if out is None else out
    check_writable(path, kind="photos", reads=(backbone, preprocessing))
    if base_images is not None:
        existing_folder(base_images)
    content = content_hash(path)
    before = _replaced(path, source)
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
    with unchanged(path, content):
        learned.model.save(path)
    watch.phase("the report")
    print_found(folder, learned)
    if before is not None:
        print_replaced(before, learned.model, folder)
    print_learned(learned.model, path, watch.seconds)
    if profile:
        watch.print()


def _replaced(path: Path, folder: Path) -> PhotoModel | None:
    """Read the model that is to be replaced; refuse where it knows classes, added later, that the folder has not."""
    from kshot.cli.printing import listed
    from kshot.datasets.folders import scan
    from kshot.photos.examples import class_name
    from kshot.photos.model import PhotoModel

    if not path.exists() or not path.stat().st_size:
        return None
    try:
        model = PhotoModel.load(path)
    except FileFormatError as error:
        raise UserError(f"{error}. It is not replaced: give another name by -o, or remove it first") from None
    missing = sorted(set(model.classes) - {class_name(name) for name in scan(folder).names})
    if missing:
        raise UserError(
            f"{path} would be replaced and knows classes that {folder} lacks ({listed(missing)}): "
            f"kshot add {path} {folder} keeps them; to be rid of them give another name by -o, or remove the file first"
        )
    return model
