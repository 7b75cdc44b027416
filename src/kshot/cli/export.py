"""`kshot export`: a model and its backbone as one ONNX file, pixels in, probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kshot.cli.options import ItsBackbone

__all__ = ["export"]


def export(
    model: Annotated[str, typer.Argument(help="The model file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .onnx file to write.")],
    closed: Annotated[bool, typer.Option("--closed", help='Leave the answer "something else" out.')] = False,
    backbone: ItsBackbone = None,
) -> None:
    """Write a model and its backbone as one ONNX file, which programs in any language can run."""
    from kshot.cli.models import open_model
    from kshot.cli.outputs import check_writable
    from kshot.cli.printing import listed, say, visible

    path, learned = open_model(model)
    check_writable(out, kind="onnx", reads=(path, backbone, learned.backbone.source))
    from kshot.photos.export import export_onnx, rule

    network = learned.load_backbone(backbone)
    names = export_onnx(learned, network, out, closed=closed)
    how = network.preprocessing
    say(f"{visible(str(out))} ({out.stat().st_size / 1e6:.1f} MB)")
    say(f"  in:  pixels, uint8 (n, {how.crop}, {how.crop}, 3): RGB, shorter side to {how.shorter_side}, centre cut out")
    say(f"  out: probabilities, float32 (n, {len(names)}): {listed([visible(name) for name in names])}")
    say(f"  answer: {rule(learned, names)}")
