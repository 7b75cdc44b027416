"""Change a model file in place: `add`, `remove` and `rename` read it, and write over it only what they have read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshot.photos.model import PhotoModel

__all__ = ["Changing"]


@dataclass(frozen=True, eq=False)
class Changing:
    """A model that is to be changed, its file, and the file's content when it was read (`kshot.files.content_hash`)."""

    path: Path
    model: PhotoModel
    content: str | None

    @classmethod
    def open(cls, given: str) -> Changing:
        """Read a model, and find out before the work that its file cannot be written."""
        from kshot.cli.models import open_model
        from kshot.cli.outputs import check_writable
        from kshot.cli.paths import existing_file
        from kshot.files import content_hash

        path = existing_file(given)
        # Before the model: what changes between the two is then found too.
        content = content_hash(path)
        _, model = open_model(given)
        check_writable(path, "MODEL")
        return cls(path, model, content)

    def save(self, model: PhotoModel) -> None:
        """Write the changed model, unless another program has changed the file meanwhile: its change would be lost."""
        from kshot.files import unchanged

        with unchanged(self.path, self.content):
            model.save(self.path)
