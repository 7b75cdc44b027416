"""`kshot extract`: features of a data set or of a folder of class folders, with any backbone, to a feature file."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kshot.cli.options import DEFAULT_BACKBONE, Device, Preprocessing, WhichBackbone
from kshot.errors import UserError

if TYPE_CHECKING:
    from kshot.backbones import Backbone
    from kshot.backbones.shards import Extracted
    from kshot.datasets.pictures import Pictures, PictureSource
    from kshot.features import Features

__all__ = ["extract"]


def extract(
    source: Annotated[str, typer.Argument(help="cifar100, miniimagenet, or a folder with a subfolder per class.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The feature file to write.")],
    backbone: WhichBackbone = DEFAULT_BACKBONE,
    data: Annotated[Path | None, typer.Option(envvar="KSHOT_DATA", help="Where cifar100 or miniimagenet is.")] = None,
    base_images: Annotated[
        Path | None, typer.Option(help="Folder with a subfolder per base class, named as the backbone names it.")
    ] = None,
    base_per_class: Annotated[int, typer.Option(min=0, help="Images of each base class, the last by name.")] = 100,
    preprocessing: Preprocessing = None,
    final: Annotated[str | None, typer.Option(help="Of an .onnx file: name of its last linear layer.")] = None,
    tensor: Annotated[str | None, typer.Option(help="Of an .onnx file: name of the tensor of features.")] = None,
    base_names: Annotated[Path | None, typer.Option(help="Of an .onnx file: its class names, one a line.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, or float16 for half the size.")] = "float32",
    on_error: Annotated[str, typer.Option(help="What to do with a damaged photograph: skip or refuse.")] = "skip",
    batch_size: Annotated[int, typer.Option(min=1, help="Images that the network takes at once.")] = 16,
    shard_size: Annotated[int, typer.Option(min=1, help="Images per shard, the unit of resuming and sharing.")] = 1024,
    device: Device = "cpu",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one, with a thread per core.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each process's network.")] = None,
) -> None:
    """Compute the features of images, and write them with the backbone's own base weights.

    Finished shards wait in OUT.parts: after a break the same command goes on where it stopped.
    """
    _check(out, dtype, on_error, reads=(backbone, preprocessing, base_names))
    from kshot.backbones import Backbone
    from kshot.backbones.session import available_cores
    from kshot.backbones.shards import remove_shards
    from kshot.cli.models import parse_preprocessing
    from kshot.datasets.pictures import open_pictures

    start = time.perf_counter()
    network = Backbone.load(
        backbone,
        preprocessing=parse_preprocessing(preprocessing),
        final=final,
        features=tensor,
        base_names=None if base_names is None else _lines(base_names),
        device=device,
        threads=max(1, available_cores() // jobs) if threads is None and jobs is not None else threads,
    )
    pictures = open_pictures(source, data=data, split=_split(network))
    base = _base_pictures(network, pictures, base_images, base_per_class)
    shards = out.resolve().with_name(f"{out.name}.parts")
    options = {"batch_size": batch_size, "shard_size": shard_size, "jobs": jobs, "on_error": on_error}
    with _progress(len(pictures.new) + (0 if base is None else len(base))) as report, _disk(out):
        found = _run(network, pictures.new, shards / "new", report, options)
        base_found = None if base is None else _run(network, base, shards / "base", report, options)
        features = _assemble(network, pictures, found, base, base_found)
        features.save(out, dtype=dtype)  # type: ignore[arg-type]
    remove_shards(shards / "new", shards / "base", shards)
    _summary(features, out, time.perf_counter() - start)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"--base-names: there is no file {path}")
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"--base-names {path} is not a text in UTF-8: save it so") from None


def _check(out: Path, dtype: str, on_error: str, *, reads: Sequence[str | Path | None]) -> None:
    """Find out before the work, not after it."""
    from kshot.cli.outputs import check_writable

    for option, value, allowed in (
        ("--dtype", dtype, ("float32", "float16")),
        ("--on-error", on_error, ("skip", "refuse")),
    ):
        if value not in allowed:
            raise UserError(f"{option} must be {' or '.join(allowed)}, not {value!r}")
    check_writable(out, "--out", kind="features", reads=reads)


def _split(network: Backbone) -> str:
    """Give the split of CIFAR-100 that a network was trained on: a class that it has learned is not new."""
    data_set, _, split = str(network.provenance.get("data", "")).partition(" ")
    return split if data_set == "cifar100" and split else "paper"


def _base_pictures(network: Backbone, source: PictureSource, folder: Path | None, per_class: int) -> Pictures | None:
    """Choose pictures of base classes: those whose class is a row of the network's base weights."""
    from kshot.datasets.pictures import open_pictures

    pictures = source.base if folder is None else open_pictures(folder).new
    if pictures is None or network.base_weights is None or per_class == 0:
        return None
    kept = set(_kept(network, source.new))  # a class that is to be new has no row among the base weights
    rows = {label: row for label, row in _base_rows(network, pictures).items() if row in kept}
    if folder is None and not network.base_ids:
        # By name only for a network that was trained on this very data set: ImageNet's "crane" is not everybody's.
        known = {*pictures.names, *source.new.names}
        rows = rows if set(network.base_names or ()) <= known else {}
    if folder is not None and not rows:
        example = (network.base_ids or network.class_names)[0]
        raise UserError(
            f"no subfolder of {folder} is named as a base class of {network.name}, such as {example}, that is not "
            f"among the classes of {source.name}"
        )
    if not rows:
        return None
    learned = dict(enumerate(network.provenance.get("last_images", ())))
    chosen = pictures.last_of_classes({label: learned.get(row) for label, row in rows.items()}, per_class)
    if len(chosen):
        return chosen
    if folder is not None:
        raise UserError(f"{network.name} has learned from all images in {folder}: give others of its classes")
    typer.echo(f"no images of base classes: {network.name} has learned from all that are here", err=True)
    return None


def _base_rows(network: Backbone, pictures: Pictures) -> dict[int, int]:
    """Give the row of the base weights for each class of the pictures that has one, by identifier or by name."""
    rows = network.class_rows
    classes = zip(pictures.class_ids, pictures.names, strict=True)
    found = {label: rows.get(identifier, rows.get(name)) for label, (identifier, name) in enumerate(classes)}
    return {label: row for label, row in found.items() if row is not None}


def _run(network: Backbone, pictures: Pictures, folder: Path, report: Any, options: dict[str, Any]) -> Extracted:
    from kshot.backbones.shards import extract_in_shards

    return extract_in_shards(network, pictures.items, pictures.ids, folder=folder, report=report, **options)


def _assemble(
    network: Backbone, source: PictureSource, found: Extracted, base: Pictures | None, base_found: Extracted | None
) -> Features:
    import numpy as np

    from kshot.features import Features

    new = source.new
    labels = new.labels[found.rows]
    classes = np.unique(labels)
    skipped = _skipped(new, found)
    if not len(classes):
        raise UserError(f"not one image of {source.name} can be read: {_some(skipped)}")
    record: dict[str, Any] = {
        "backbone": {"name": network.name, "hash": network.hash},
        "data": source.name,
        "images": [new.ids[row] for row in found.rows],
        "skipped": skipped,
    }
    values = _base_layer(network, new) if network.base_weights is not None else {}
    if base is not None and base_found is not None and len(base_found.rows):
        row_names = network.class_names
        place = {name: index for index, name in enumerate(values["base_names"])}
        rows = _base_rows(network, base)
        values["base_X"] = base_found.features
        values["base_y"] = [place[row_names[rows[int(label)]]] for label in base.labels[base_found.rows]]
        record["base_images"] = [base.ids[row] for row in base_found.rows]
        record["skipped"] += _skipped(base, base_found)
    names = [new.names[label] for label in classes]
    return Features(found.features, np.searchsorted(classes, labels), names=names, source=record, **values)


def _base_layer(network: Backbone, new: Pictures) -> dict[str, Any]:
    """Give the network's last layer without the rows of classes that are to be new, and the superclasses it has."""
    from kshot.datasets.cifar100_classes import SUPERCLASS_OF

    assert network.base_weights is not None
    kept = _kept(network, new)
    if not kept:  # features of the very classes that the network was trained on
        return {}
    names = [network.class_names[row] for row in kept]
    known = set(names) <= set(SUPERCLASS_OF)
    return {
        "base_weights": network.base_weights[kept],
        "base_bias": None if network.base_bias is None else network.base_bias[kept],
        "base_names": names,
        "base_groups": [SUPERCLASS_OF[name] for name in names] if known else None,
    }


def _kept(network: Backbone, new: Pictures) -> list[int]:
    """Give the rows of the base weights whose class is not to be new.

    miniImageNet's test classes have rows among ImageNet's: beside its own row a class is not new.
    """
    names = network.base_ids or network.class_names
    return [row for row, identifier in enumerate(names) if identifier not in new.class_ids]


def _skipped(pictures: Pictures, found: Extracted) -> list[tuple[str, str]]:
    before = [(skipped.path.as_posix(), skipped.reason) for skipped in pictures.skipped]
    return before + [(pictures.ids[row], reason) for row, reason in found.skipped]


def _some(skipped: Sequence[tuple[str, str]], most: int = 5) -> str:
    more = f" and {len(skipped) - most} more" if len(skipped) > most else ""
    return ", ".join(f"{name} ({reason})" for name, reason in skipped[:most]) + more


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Show a bar on a terminal, and nothing where the output is piped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("images", total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def _disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(
                f"there is no space left for {out}: make some, and the same command goes on where it stopped"
            ) from None
        raise


def _summary(features: Features, out: Path, seconds: float) -> None:
    from kshot.cli.printing import listing, say, visible

    say(f"{features} in {seconds:.1f} s → {visible(str(out))} ({out.stat().st_size / 1e6:.1f} MB)")
    skipped = features.source["skipped"]
    for line in listing(f"skipped {len(skipped)}", [visible(f"{name} ({reason})") for name, reason in skipped]):
        say(line)
