"""A trained network as a function from images to features, with the last layer that it was trained with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot.backbones import names
from kshot.backbones.checked import refuse_external_data
from kshot.backbones.session import Session, available_cores, check_device
from kshot.backbones.stream import Batch, Picture, array_batches, picture_batches
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import FileFormatError, MissingExtraError, UserError
from kshot.training.backbone_file import BackboneContent, Storage, read_backbone, write_backbone

__all__ = ["Backbone"]


class Backbone:
    r"""Features x = Φ(u) of images u, and the base weights W̃ of the network's own last layer (Section 2.1).

    Made by `Backbone.load` or `Backbone.from_torch`. The network's own logits are x W̃ᵀ + b:

    >>> b = Backbone.load("efficientnet-lite0")
    >>> grey = np.full((2, 300, 400, 3), 127, np.uint8)
    >>> x = b.features(grey)
    >>> x.shape, (x @ b.base_weights.T + b.base_bias).shape
    ((2, 1280), (2, 1000))

    """

    def __init__(self, content: BackboneContent, *, device: str = "cpu", threads: int | None = None) -> None:
        if device != "cpu":
            check_device(device)
        self._content = content
        self.device = device
        self.threads = threads
        for array in (content.base_weights, content.base_bias):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        preprocessing: Preprocessing | str | None = None,
        final: str | None = None,
        features: str | None = None,
        base_names: Sequence[str] | None = None,
        device: str = "cpu",
        threads: int | None = None,
    ) -> Backbone:
        """Load a backbone by its bundled name, from a backbone file, or from any `.onnx` file.

        Args:
            source: the name or the file.
            preprocessing: of an `.onnx` file: a `Preprocessing`, or the name of a usual one such as "imagenet".
            final: of an `.onnx` file: its last linear layer, where the one before the output is not meant.
            features: of an `.onnx` file: the tensor to take as features, without base weights.
            base_names: of an `.onnx` file: names of the classes of its last layer.
            device: "cpu", "cuda", "cuda:1", ...: whatever ONNX Runtime was built for.
            threads: of the processor; by default one for each core.

        """
        path = names.find(source)
        if path.suffix.lower() == ".onnx":
            from kshot.backbones.foreign import import_onnx

            content = import_onnx(
                path, preprocessing=preprocessing, final=final, features=features, base_names=base_names
            )
        else:
            given = {"preprocessing": preprocessing, "final": final, "features": features, "base_names": base_names}
            for option, value in given.items():
                if value is not None:
                    raise UserError(f"{option}= is for .onnx files only: the backbone file {path} says it itself")
            content = read_backbone(path)
        return cls(content, device=device, threads=threads)

    @classmethod
    def from_torch(
        cls,
        module: Any,
        *,
        final: str,
        preprocessing: Preprocessing | str,
        name: str | None = None,
        base_names: Sequence[str] | None = None,
        base_ids: Sequence[str] | None = None,
        device: str = "cpu",
        threads: int | None = None,
    ) -> Backbone:
        """Make a backbone of any torch network (extra `train`), which is copied and not changed.

        Args:
            module: the network, a `torch.nn.Module`; it takes images (n, 3, h, w) first.
            final: name of its last linear layer, such as "fc" or "head.fc"; what goes into it are the features.
            preprocessing: what it expects of its images, or the name of a usual convention such as "imagenet".
            name: what to call it.
            base_names: names of its classes, in the order of the last layer's rows.
            base_ids: identifiers of its classes, likewise.
            device: where the backbone will run.
            threads: of the processor; by default one for each core.

        """
        try:
            from kshot.training.export import from_module
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "making a backbone of a torch network", error.name or "torch", extra="train"
            ) from None
        if isinstance(preprocessing, str):
            preprocessing = Preprocessing.named(preprocessing)
        content = from_module(
            module, final=final, preprocessing=preprocessing, name=name, base_names=base_names, base_ids=base_ids
        )
        return cls(content, device=device, threads=threads)

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self._content.name

    @property
    def dim(self) -> int:
        """Number of features p."""
        return self._content.dim

    @property
    def graph(self) -> bytes:
        """The ONNX graph, from images that `preprocessing` has prepared to features."""
        graph = self._content.onnx.tobytes()
        refuse_external_data(graph, self.name)
        return graph

    @property
    def preprocessing(self) -> Preprocessing:
        """What happens to an image before the network sees it."""
        return self._content.preprocessing

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the rows of the base weights are called: their names, or else their numbers; empty without a layer."""
        rows = 0 if self.base_weights is None else len(self.base_weights)
        return self.base_names or tuple(str(row) for row in range(rows))

    @property
    def class_rows(self) -> dict[str, int]:
        """Which row of the base weights a class is, by its name and by its identifier."""
        rows = {name: row for row, name in enumerate(self.class_names)}
        return rows | {identifier: row for row, identifier in enumerate(self.base_ids or ())}

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the network comes from."""
        return dict(self._content.provenance)

    @property
    def base_weights(self) -> NDArray[np.float32] | None:
        """W̃ (C̃, p) of the base classes, or None."""
        return self._content.base_weights

    @property
    def base_bias(self) -> NDArray[np.float32] | None:
        """Biases (C̃,) of the base classes, or None."""
        return self._content.base_bias

    @property
    def base_names(self) -> tuple[str, ...] | None:
        """C̃ names of the base classes, or None."""
        return self._content.base_names

    @property
    def base_ids(self) -> tuple[str, ...] | None:
        """C̃ identifiers of the base classes (WordNet's, for ImageNet), or None."""
        return self._content.base_ids

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all that its answers depend on: graph, preprocessing, base weights and names."""
        digest = hashlib.sha256(self._content.onnx.tobytes())
        settings = [self.preprocessing.to_json(), self.base_names, self.base_ids]
        digest.update(json.dumps(settings, sort_keys=True).encode())
        for array in (self.base_weights, self.base_bias):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def features(self, images: Iterable[Picture] | Picture, *, batch_size: int = 16) -> NDArray[np.float32]:
        """Compute features (n, p) of n images: paths, Pillow images, uint8 arrays, or one array (n, h, w, 3).

        Any iterable will do, also one that makes images as it goes: only a few are in memory at once. One image alone
        gives one row. A damaged photograph raises `PhotographError`; `stream` can skip it.
        """
        parts = [batch.features for batch in self.stream(images, batch_size=batch_size)]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)

    def stream(
        self,
        images: Iterable[Picture] | Picture,
        *,
        batch_size: int = 16,
        on_error: Literal["refuse", "skip"] = "refuse",
    ) -> Iterator[Batch]:
        """Give the features of images batch by batch; damaged photographs raise, or are named and left out."""
        if not isinstance(batch_size, int) or batch_size < 1:
            raise UserError(f"batch_size is a number from 1, and not {batch_size!r}")
        if isinstance(images, np.ndarray) and images.ndim == 4:
            return array_batches(images, self._run, self.preprocessing, batch_size=batch_size)
        single = isinstance(images, str | Path | np.ndarray) or not hasattr(images, "__iter__")
        return picture_batches(
            [images] if single else images,  # type: ignore[arg-type, list-item]
            self._run,
            self.preprocessing,
            batch_size=batch_size,
            workers=available_cores(),
            skip=on_error == "skip",
        )

    def save(self, path: str | Path, *, storage: Storage = "float32") -> None:
        """Write a backbone file; "float16" halves it and moves the features by about 0.3 %."""
        write_backbone(path, self._content, storage=storage)

    def __repr__(self) -> str:
        classes = "no base classes" if self.base_weights is None else f"{len(self.base_weights)} base classes"
        return f"Backbone({self.name!r}, {self.dim} features, {classes})"

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot travel to another process; it is opened again there.
        return {key: value for key, value in self.__dict__.items() if key != "_session"}

    @cached_property
    def _session(self) -> Session:
        return Session(self.graph, name=self.name, device=self.device, threads=self.threads)

    def _run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        features = self._session.run(images)
        if features.shape[1] != self.dim:
            raise FileFormatError(
                f"the graph of {self.name} gives {features.shape[1]} features, not the {self.dim} stated"
            )
        return features
