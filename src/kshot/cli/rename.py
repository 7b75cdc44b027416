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
    from kshot.cli.models import open_model
    from kshot.cli.paths import check_writable
    from kshot.cli.printing import say, visible
    from kshot.photos.learning import rename as run

    path, before = open_model(model)
    check_writable(path, "MODEL")
    run(before, old, new).save(path)
    say(f"{visible(str(path))}: {visible(old)} is now {visible(new)}")
