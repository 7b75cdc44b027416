"""`kshot predict`: what is on photographs, and how sure that is; a table for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kshot.cli.options import Device, ItsBackbone, Profile, Threads
from kshot.errors import UserError

if TYPE_CHECKING:
    from kshot.cli.paths import Asked
    from kshot.photos.answers import Answer
    from kshot.photos.model import PhotoModel

__all__ = ["predict"]


def predict(
    model: Annotated[str, typer.Argument(help="The model file.")],
    photos: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE...", help="Files, folders, patterns, or - for paths on standard input."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object a line.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help='Leave the answer "something else" out.')] = False,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help='Answer "unsure" below this probability; by default the model\'s.'),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Find the threshold at which this share of the answers is expected wrong."),
    ] = None,
    class_prior: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE,...", help="How often classes come, where not equally often."),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Show so many of the most probable.")] = None,
    backbone: ItsBackbone = None,
    device: Device = "cpu",
    threads: Threads = None,
    profile: Profile = False,
) -> None:
    """Say what is on each photograph.

    Exit status: 0; 1 where some could not be read (named on standard error); 2 where none could.
    """
    from kshot.cli.models import open_model
    from kshot.cli.paths import photographs
    from kshot.cli.timing import Stopwatch

    watch = Stopwatch()
    watch.phase("imports")
    from kshot.photos.predicting import predict_stream

    watch.phase("reading the model")
    path, found = open_model(model)
    if threshold is not None and max_error is not None:
        raise UserError("--threshold and --max-error both set the threshold: give one of them")
    if closed and found.closed is None:
        raise UserError(
            f"{path} knows one class only ({found.classes[0]}), so --closed leaves nothing to choose from. "
            f"Leave --closed out, or add a class: kshot add {path} FOLDER"
        )
    asked = photographs(photos)
    shares = None if not class_prior else parse_shares(class_prior, found)
    watch.phase("opening the network")
    network = found.load_backbone(backbone, device=device, threads=threads)
    watch.phase("photographs, network, answers")
    outcomes = predict_stream(
        found, asked.names, network, closed=closed, threshold=threshold, max_error=max_error, class_prior=shares
    )
    status = _print_all(outcomes, asked, found, as_json=as_json, top=top)
    if profile:
        watch.print()
    if status:
        raise typer.Exit(status)


def parse_shares(given: Sequence[str], model: PhotoModel) -> dict[str, float]:
    """Read NAME=SHARE,...; a name with a comma in it can be given by an option of its own."""
    from kshot.photos.learning import find_class

    shares: dict[str, float] = {}
    for option in given:
        whole = option.rpartition("=")[0] in model.classes
        for part in [option] if whole else option.split(","):
            name, equals, number = part.rpartition("=")
            try:
                share = float(number)
            except ValueError:
                share = -1.0
            if not equals or not 0 <= share <= 1:
                raise UserError(f"--class-prior must be NAME=SHARE,... with shares from 0 to 1, and not {part!r}")
            # A class may end in a space; most spaces are only typed.
            name = name if name in model.classes else find_class(model, name.strip())
            if name in shares:
                raise UserError(f"--class-prior gives {name} two shares: give one")
            shares[name] = share
    return shares


def _print_all(outcomes: Any, asked: Asked, model: PhotoModel, *, as_json: bool, top: int | None) -> int:
    """Print the answers as they come; give the exit status."""
    from kshot.cli.answer_table import AnswerTable
    from kshot.cli.printing import say
    from kshot.datasets.photographs import PhotographError

    names = asked.names
    table = AnswerTable(names, model.classes, top=top)
    answered = 0
    for name, reason in asked.problems:
        _print_failure(name, reason, as_json=as_json)
    for place, outcome in outcomes:
        if isinstance(outcome, PhotographError):
            _print_failure(names[place], outcome.reason, as_json=as_json)
        else:
            answered += 1
            say(_json(names[place], outcome, top) if as_json else table.line(names[place], outcome))
    if asked.passed_over:
        files = "1 file" if asked.passed_over == 1 else f"{asked.passed_over} files"
        print(f"kshot: passed over {files} not named as images", file=sys.stderr)
    failed = len(asked.problems) + len(names) - answered
    return 0 if not failed else 1 if answered else 2


def _print_failure(name: str, reason: str, *, as_json: bool) -> None:
    from kshot.cli.printing import say, visible

    # Flushed first, so that on a terminal both streams stay in order.
    sys.stdout.flush()
    print(f"kshot: {visible(name)} cannot be used: {visible(reason)}", file=sys.stderr)
    if as_json:
        say(json.dumps({"image": name, "error": reason}))


def _json(name: str, answer: Answer, top: int | None) -> str:
    values = answer.to_json()
    if top is not None:
        values["probabilities"] = dict(list(values["probabilities"].items())[:top])
    return json.dumps({"image": name, **values})
