"""What `learn`, `add`, `remove` and `info` print about a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.cli.paths import existing_file, relative
from kshot.cli.printing import columns, listed, listing, say, visible
from kshot.errors import UserError

if TYPE_CHECKING:
    from kshot.datasets.preprocessing import Preprocessing
    from kshot.photos.estimate import Estimate
    from kshot.photos.learning import Learned
    from kshot.photos.model import PhotoModel

__all__ = [
    "estimate_lines",
    "open_model",
    "parse_preprocessing",
    "print_found",
    "print_learned",
    "print_replaced",
    "twin_lines",
]


def open_model(given: str) -> tuple[Path, PhotoModel]:
    """Read a model file, or say what may have been meant."""
    from kshot.photos.model import PhotoModel

    path = existing_file(given)
    return path, PhotoModel.load(path)


def parse_preprocessing(given: str | None) -> Preprocessing | str | None:
    """Read `--preprocessing`: the name of a usual one, or a JSON file."""
    from kshot.datasets.preprocessing import NAMED, Preprocessing

    if given is None or given in NAMED:
        return given
    path = Path(given)
    if not path.is_file():
        raise UserError(f"--preprocessing {given} is neither a file nor one of {', '.join(NAMED)}")
    try:
        return Preprocessing.from_json(json.loads(path.read_text("utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--preprocessing {given} is not JSON: {error}") from None


def print_found(folder: str, learned: Learned) -> None:
    """Print the classes of a folder and what was passed over."""
    read = learned.read
    counts = {name: count for name, count in read.counts.items() if count}
    title = folder if folder.endswith("/") else f"{folder}/"
    say(f"{visible(title)}   {_number(len(counts), 'class', 'classes')}, {_number(len(read), 'photograph')}")
    if counts:
        for line in columns(counts):
            say(line)
    passed = [visible(f"{relative(one.path, folder)} ({one.reason})") for one in learned.skipped]
    for line in listing(f"  skipped {len(passed)}", passed):
        say(line)
    for places in learned.model.examples.in_two_classes():
        where = " and ".join(visible(f"{name}/{file}") for name, file in places)
        say(f"  the same photograph is in two classes: {where}; it spoils the estimate")
    say()


def print_replaced(before: PhotoModel, after: PhotoModel, folder: str) -> None:
    """Print which model gave way to the new one, and how many of its photographs the new one has not."""
    old, new = (set(zip(one.examples.names, one.examples.digests, strict=True)) for one in (before, after))
    lost = len(old - new)
    what = f"{_number(len(before.classes), 'class', 'classes')}, {_number(len(old), 'photograph')}"
    rest = f"; {lost} of them not in {visible(folder)} and so forgotten (kshot add keeps them)" if lost else ""
    say(f"replaced a model of {what}{rest}")


def print_learned(model: PhotoModel, path: Path, seconds: float) -> None:
    """Print that a model was written, what was set aside for it, and what to expect of it."""
    say(f"learned in {seconds:.1f} s → {visible(str(path))} ({path.stat().st_size / 1e6:.1f} MB)")
    for line in (*calibration_lines(model), *twin_lines(model)):
        say(line)
    say()
    say("What to expect, each photograph judged by a model that had not seen it:")
    for line in estimate_lines(model):
        say(line)
    say(f"Try it: kshot predict {visible(shlex.quote(str(path)))} PHOTO...")


def calibration_lines(model: PhotoModel) -> Iterator[str]:
    """Say where scale and temperature come from, where they are not the bundled ones."""
    network = visible(model.backbone.name)
    if model.calibration.get("source") == "leave-one-out":
        better = "; photographs of its own classes (--base-images FOLDER) would choose them better"
        yield (
            f"no calibration comes with {network}: scale and temperature were chosen by leaving "
            f"photographs out{better if model.set_aside or model.joint is not None else ''}"
        )
    if model.joint is None:
        yield f'{network} has nothing to tell "something else" by: one of your classes is always answered'


def twin_lines(model: PhotoModel) -> Iterator[str]:
    """Say which of the network's own classes are the same thing as one of the user's."""
    if not model.set_aside:
        return
    try:
        names: Sequence[str] | None = model.load_backbone().base_names
    except (UserError, FileNotFoundError):
        names = None
    for row, name in model.set_aside[:8]:
        own = names[row] if names is not None else f"its class {row}"
        yield f"{visible(name)} is also one of the network's own classes ({visible(own)}), which is set aside"
    if len(model.set_aside) > 8:
        yield f"and {len(model.set_aside) - 8} more of the network's own classes are set aside likewise"


def estimate_lines(model: PhotoModel) -> Iterator[str]:
    """Say how good a model will be, which classes are most alike, and what to photograph next."""
    from kshot.photos.estimate import Estimate

    examples = model.examples
    estimate = Estimate.of(model.left_out, examples.labels, threshold=model.threshold, doubt=model.doubt)
    singles = [name for name, count in examples.counts.items() if count == 1]
    if estimate.judged:
        share = estimate.right / estimate.judged
        yield (
            f"  right {estimate.right} of {estimate.judged} (about {100 * share:.0f} %, likely between "
            f"{100 * estimate.low:.0f} and {100 * estimate.high:.0f}); log-likelihood {estimate.log_likelihood:.2f}"
        )
    left_over = len(examples) - len(singles) - estimate.judged
    if left_over:
        yield f"  ({left_over} more photographs were not judged, to save time)"
    other = int(estimate.confusion[:, -1].sum())
    if other:
        yield f"  {other} of them taken for something else"
    if estimate.unsure:
        yield f"  {estimate.unsure} of them would be answered unsure; with more photographs fewer are"
    yield from _alike(model, estimate)
    if singles:
        names = listed([visible(name) for name in singles])
        yield f"  cannot be judged, with one photograph only: {names}; a second one helps most"


def _alike(model: PhotoModel, estimate: Estimate) -> Iterator[str]:
    pair = estimate.most_alike()
    if pair is None:
        return
    a, b, confused = pair
    count = f"{confused} confused" if confused else "none confused"
    # The class with fewer photographs first: that is where the next one helps.
    first, second = sorted((model.classes[a], model.classes[b]), key=lambda name: model.examples.counts[name])
    advice = " — a few more photographs of these two help most" if confused else ""
    yield f"  most alike: {visible(first)} and {visible(second)} ({count}){advice}"


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
