"""The command `kshot`: one file per command, each loaded only when it is the one that was asked for."""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "learn": "learn classes from a folder with a subfolder of photographs for each",
    "predict": "say what is on photographs, and how sure that is",
    "add": "learn more photographs or classes into a model",
    "remove": "take a class out of a model",
    "rename": "give a class of a model another name",
    "info": "what is in a model, and how good it will be",
    "export": "backbone and classifier of a model in one ONNX file",
    "evaluate": "k-shot tasks drawn from a folder of photographs: how good, how well calibrated",
    "reproduce": "the paper's tables and figures, and which of its claims held",
    "demo": "phases 2 to 4 on the bundled features: the table of methods",
    "extract": "features of a folder or data set, with any backbone",
    "train": "phase 1: train a network on the base classes of a data set",
}
"""Each command's module in this package has a function of the same name, and its one line for the help."""


def main(arguments: list[str] | None = None) -> None:
    """Run `kshot` with the given arguments, by default the command line's, and exit with its status.

    What is the user's to mend (a missing file, a damaged one, a missing extra) is one sentence on standard error and
    status 2, never a traceback.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    _mend_streams()
    # Pillow's remarks on odd photographs are for programmers: what matters of them is said of the photograph.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    from kshot.errors import MissingExtraError, UserError

    try:
        _app(arguments)(args=arguments, prog_name="kshot", standalone_mode=True)
    except (UserError, MissingExtraError) as error:
        _fail(str(error))
    except FileNotFoundError as error:
        _fail(str(error) if error.filename is None else f"there is no file {error.filename}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except MemoryError:
        _fail("there is not enough memory for this: close other programs, or give it fewer or smaller files")
    except (KeyboardInterrupt, _StoppedError):
        _fail("stopped; nothing half-written is left behind", status=130)


class _StoppedError(Exception):
    """Ctrl-C, in a form that Typer does not swallow."""


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise _StoppedError from None

    return run


def _mend_streams() -> None:
    """Let a closed standard stream (`>&-`) lead nowhere, and put question marks for what an encoding cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (until the end)
        elif mode == "w" and isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _app(arguments: list[str]) -> Callable[..., Any]:
    """Build the Typer application with the one command that the arguments name, or with all of them for the help."""
    import typer

    app = typer.Typer(
        name="kshot",
        help="Learn new image classes from a handful of examples, with probabilities that can be trusted.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback(invoke_without_command=True)
    def version(
        version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
    ) -> None:
        if version:
            from kshot import __version__

            typer.echo(f"kshot {__version__}")
            raise typer.Exit

    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module = importlib.import_module(f"kshot.cli.{name}")
        app.command(name=name, short_help=COMMANDS[name])(_stoppable(getattr(module, name)))
    return typer.main.get_command(app)


def _fail(sentence: str, *, status: int = 2) -> None:
    from kshot.cli.printing import visible

    # One line, whatever names and other people's messages are in it.
    print(f"kshot: {visible(sentence)}", file=sys.stderr)
    raise SystemExit(status)
