"""`kshot extract`: features of a data set or of a folder of class folders, with any backbone, to a feature file."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    backbone: Annotated[
        str, typer.Option(help="A bundled name, a backbone file, or an .onnx file.")
    ] = "efficientnet-lite0",
    data: Annotated[Path | None, typer.Option(envvar="KSHOT_DATA", help="Where cifar100 or miniimagenet is.")] = None,
    base_images: Annotated[
        Path | None, typer.Option(help="Folder with a subfolder per base class, named as the backbone names it.")
    ] = None,
    base_per_class: Annotated[int, typer.Option(min=0, help="Images of each base class, the last by name.")] = 100,
    preprocessing: Annotated[
        str | None, typer.Option(help="Of an .onnx file: imagenet, inception, zero-to-one, or a JSON file.")
    ] = None,
    final: Annotated[str | None, typer.Option(help="Of an .onnx file: name of its last linear layer.")] = None,
    tensor: Annotated[str | None, typer.Option(help="Of an .onnx file: name of the tensor of features.")] = None,
    base_names: Annotated[Path | None, typer.Option(help="Of an .onnx file: its class names, one a line.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, or float16 for half the size.")] = "float32",
    on_error: Annotated[str, typer.Option(help="What to do with a damaged photograph: skip or refuse.")] = "skip",
    batch_size: Annotated[int, typer.Option(min=1, help="Images that the network takes at once.")] = 16,
    shard_size: Annotated[int, typer.Option(min=1, help="Images per shard, the unit of resuming and sharing.")] = 1024,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...: what ONNX Runtime has here.")] = "cpu",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one, with a thread per core.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each process's network.")] = None,
) -> None:
    """Compute the features of images, and write them with the backbone's own base weights.

    Finished shards wait in OUT.parts: after a break the same command goes on where it stopped.
    """
    _check(out, dtype, on_error)
    from kshot.backbones import Backbone
    from kshot.backbones.session import available_cores
    from kshot.cli.models import parse_preprocessing
    from kshot.datasets.pictures import open_pictures

    start = time.perf_counter()
    network = Backbone.load(
        backbone,
        preprocessing=parse_preprocessing(preprocessing),
        final=final,
        features=tensor,
        base_names=None if base_names is None else base_names.read_text("utf-8").splitlines(),
        device=device,
        threads=max(1, available_cores() // jobs) if threads is None and jobs is not None else threads,
    )
    pictures = open_pictures(source, data=data)
    base = _base_pictures(network, pictures, base_images, base_per_class)
    shards = out.resolve().with_name(f"{out.name}.parts")
    options = {"batch_size": batch_size, "shard_size": shard_size, "jobs": jobs, "on_error": on_error}
    with _progress(len(pictures.new) + (0 if base is None else len(base))) as report, _disk(out):
        found = _run(network, pictures.new, shards / "new", report, options)
        base_found = None if base is None else _run(network, base, shards / "base", report, options)
        features = _assemble(network, pictures, found, base, base_found)
        features.save(out, dtype=dtype)  # type: ignore[arg-type]
    shutil.rmtree(shards, ignore_errors=True)
    _summary(features, out, time.perf_counter() - start)


def _check(out: Path, dtype: str, on_error: str) -> None:
    """Find out before the work, not after it."""
    for option, value, allowed in (
        ("--dtype", dtype, ("float32", "float16")),
        ("--on-error", on_error, ("skip", "refuse")),
    ):
        if value not in allowed:
            raise UserError(f"{option} must be {' or '.join(allowed)}, not {value!r}")
    if out.is_dir():
        raise UserError(f"--out {out} is a folder: give the name of a file")
    if not out.resolve().parent.is_dir():
        raise UserError(f"--out {out} cannot be written: there is no folder {out.parent}")


def _base_pictures(network: Backbone, source: PictureSource, folder: Path | None, per_class: int) -> Pictures | None:
    """Choose pictures of base classes: those whose class is a row of the network's base weights."""
    from kshot.datasets.pictures import open_pictures

    pictures = source.base if folder is None else open_pictures(folder).new
    if pictures is None or network.base_weights is None or per_class == 0:
        return None
    rows = _base_rows(network, pictures)
    if folder is None and not network.base_ids:
        # By name only for a network that was trained on this very data set: ImageNet's "crane" is not everybody's.
        known = {*pictures.names, *source.new.names}
        rows = rows if set(network.base_names or ()) <= known else {}
    if folder is not None and not rows:
        example = (network.base_ids or _names(network))[0]
        raise UserError(f"no subfolder of {folder} is named as a base class of {network.name}, such as {example}")
    return pictures.last_of_classes(list(rows), per_class) if rows else None


def _base_rows(network: Backbone, pictures: Pictures) -> dict[int, int]:
    """Give the row of the base weights for each class of the pictures that has one, by identifier or by name."""
    rows = {name: row for row, name in enumerate(network.base_names or ())}
    rows |= {identifier: row for row, identifier in enumerate(network.base_ids or ())}
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
        row_names = _names(network)
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
    # miniImageNet's test classes have rows among ImageNet's: beside its own row a class is not new.
    kept = [
        row for row, identifier in enumerate(network.base_ids or _names(network)) if identifier not in new.class_ids
    ]
    names = [_names(network)[row] for row in kept]
    known = set(names) <= set(SUPERCLASS_OF)
    return {
        "base_weights": network.base_weights[kept],
        "base_bias": None if network.base_bias is None else network.base_bias[kept],
        "base_names": names,
        "base_groups": [SUPERCLASS_OF[name] for name in names] if known else None,
    }


def _names(network: Backbone) -> tuple[str, ...]:
    assert network.base_weights is not None
    return network.base_names or tuple(str(row) for row in range(len(network.base_weights)))


def _skipped(pictures: Pictures, found: Extracted) -> list[tuple[str, str]]:
    before = [(skipped.path.name, skipped.reason) for skipped in pictures.skipped]
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
    typer.echo(f"{features} in {seconds:.1f} s → {out} ({out.stat().st_size / 1e6:.1f} MB)")
    skipped = features.source["skipped"]
    if skipped:
        typer.echo(f"skipped {len(skipped)}: {_some(skipped)}")
