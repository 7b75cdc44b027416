"""`kshot rename`: give a class of a model another name."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["rename"]


def rename(
    model: Annotated[str, typer.Argument(help="The model file; it is replaced.")],
    old: Annotated[str, typer.Argument(help="The class.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
) -> None:
    """Give a class another name; nothing is learned anew."""
    from kshot.cli.changing import Changing
    from kshot.cli.printing import say, visible
    from kshot.photos.learning import rename as run

    changing = Changing.open(model)
    changing.save(run(changing.model, old, new))
    say(f"{visible(str(changing.path))}: {visible(old)} is now {visible(new)}")
