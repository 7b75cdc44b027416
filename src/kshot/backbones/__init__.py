"""Phase 1, using the network: images to features, through ONNX Runtime."""

from __future__ import annotations

from kshot.backbones.backbone import Backbone
from kshot.backbones.stream import Batch, Picture

__all__ = ["Backbone", "Batch", "Picture"]
