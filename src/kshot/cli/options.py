"""The options that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["DEFAULT_BACKBONE", "Device", "ItsBackbone", "Preprocessing", "Profile", "Threads", "WhichBackbone"]

DEFAULT_BACKBONE = "efficientnet-lite0"

WhichBackbone = Annotated[str, typer.Option(help="A bundled name, a backbone file, or an .onnx file.")]
Preprocessing = Annotated[
    str | None, typer.Option(help="Of an .onnx file: imagenet, inception, zero-to-one, or a JSON file.")
]
ItsBackbone = Annotated[
    str | None, typer.Option(help="Where the model's backbone file is, if it is no longer where it was.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...: what ONNX Runtime has here.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the network.")]
Profile = Annotated[bool, typer.Option("--profile", help="Say where the time went.")]
