"""`kshot remove`: take a class out of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from kshot.cli.options import ItsBackbone

__all__ = ["remove"]


def remove(
    model: Annotated[str, typer.Argument(help="The model file; it is replaced.")],
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class to take out.")],
    backbone: ItsBackbone = None,
) -> None:
    """Take a class out of a model, which becomes the one that would have been learned without it."""
    from kshot.cli.changing import Changing
    from kshot.cli.models import print_learned
    from kshot.cli.timing import Stopwatch
    from kshot.photos.learning import remove as run

    watch = Stopwatch()
    changing = Changing.open(model)
    after = run(changing.model, name, backbone=backbone)
    changing.save(after)
    print_learned(after, changing.path, watch.seconds)
