"""The practitioner's model: the examples' features, and what was learned from them; its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts.normalisation import Normalisation
from kshot.errors import FileFormatError, UserError
from kshot.photos.examples import Examples
from kshot.photos.twins import old_logits, softmax

if TYPE_CHECKING:
    from kshot.backbones import Backbone

__all__ = ["BackboneRecord", "Head", "PhotoModel", "Probabilities"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Head:
    """Softmax weights of the user's classes: p(c | x) ∝ exp(temperature (w_c·z + b_c)), Eq. (3).

    Arguments:
        weights: (C, p) float32, for features as `PhotoModel.prepared` gives them.
        bias: (C,) float32.
        temperature: above 1 it sharpens (the inverse of Guo et al.'s).
        scale: that of the prior they were learned with.
        old_factor, old_shift: an old class beside them has p(old | x) ∝ exp(old_factor · f_old(x) + old_shift).
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    temperature: float
    scale: float
    old_factor: float = 1.0
    old_shift: float = 0.0

    def logits(self, Z: NDArray[np.floating[Any]]) -> Floats:
        """Give temperature (w_c·z + b_c), (m, p) -> (m, C)."""
        return self.temperature * (Z.astype(np.float64) @ self.weights.T.astype(np.float64) + self.bias)


@dataclass(frozen=True)
class BackboneRecord:
    """Which backbone made the features: its name, its content's hash, and where it was found.

    Arguments:
        name: what it is called.
        hash: `Backbone.hash`.
        source: the bundled name or the file it was loaded from.
        preprocessing: of an `.onnx` file, as JSON; else None.
    """

    name: str
    hash: str
    source: str
    preprocessing: dict[str, Any] | None = None

    def load(self, source: str | Path | None = None, *, device: str = "cpu", threads: int | None = None) -> Backbone:
        """Load that very backbone, from `source` if it is no longer where it was."""
        from kshot.backbones import Backbone
        from kshot.datasets.preprocessing import Preprocessing

        place = Path(source) if source is not None else Path(self.source)
        how = Preprocessing.from_json(self.preprocessing) if self.preprocessing is not None else None
        foreign = place.suffix.lower() == ".onnx"
        try:
            backbone = Backbone.load(
                str(source or self.source), preprocessing=how if foreign else None, device=device, threads=threads
            )
        except FileNotFoundError:
            raise UserError(
                f"the backbone {self.name} that this model was learned with is not at {place}: "
                "say where it is by --backbone FILE"
            ) from None
        if backbone.hash != self.hash:
            raise UserError(
                f"{source or self.source} is not the backbone that this model was learned with ({self.name}): "
                "give that one by --backbone FILE, or learn again"
            )
        return backbone


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Of m photographs.

    Arguments:
        classes: p(c) of the user's classes, (m, C).
        other: p(something else), (m,); zero where that was left out.
        most_like: the backbone's class that has most of it, its row among the base weights, (m,); None where left out.
    """

    classes: Floats
    other: Floats
    most_like: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class PhotoModel:
    """What `kshot learn` writes and `kshot predict` reads; frozen: `add` and the others make a new one.

    Arguments:
        examples: what it has learned from.
        backbone: which network made the features.
        closed: weights learned for the classes alone; None where there is one class only.
        joint: weights learned in one softmax with the backbone's own classes (Section 4.1); None where it has none.
        set_aside: rows of the base weights left out of that softmax, each with the user's class that it is a twin of.
        threshold: `predict` answers "unsure" where nothing is as probable as this,
        doubt: and in place of a class where something else is more probable than this.
        left_out: probabilities of each example by a model that had not seen it, (n, C + 1) float32, the last column
            something else; NaN where that cannot be (the only photograph of its class).
        folds: how many models those come from; n when each example was left out alone.
        calibration: how scale and temperature were chosen, JSON values: "source" ("bundled", "base images" or
            "leave-one-out"), and the calibrations "closed" and "joint" (`kshot.concepts.Calibration.to_json`) or None.
        normalisation: what the features go through before the heads see them; None for nothing.
    """

    examples: Examples
    backbone: BackboneRecord
    closed: Head | None
    joint: Head | None
    set_aside: tuple[tuple[int, str], ...] = ()
    threshold: float = 0.5
    doubt: float = 1.0
    left_out: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    folds: int = 0
    calibration: dict[str, Any] = field(default_factory=dict)
    normalisation: Normalisation | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the user's classes, sorted."""
        return self.examples.classes

    def probabilities(self, X: NDArray[np.floating[Any]], backbone: Backbone, *, closed: bool = False) -> Probabilities:
        """Give the probabilities of photographs with features X, (m, p); `closed` leaves "something else" out."""
        Z = self.prepared(X)
        if closed or self.joint is None:
            if self.closed is None:
                raise UserError(
                    f"this model knows one class only ({self.classes[0]}): there is nothing to choose from. Add a class"
                )
            return Probabilities(softmax(self.closed.logits(Z)), np.zeros(len(X)))
        old = self.old_rows(backbone)
        if not len(old):  # all of the backbone's own classes are the user's
            return Probabilities(softmax(self.joint.logits(Z)), np.zeros(len(X)))
        weights, bias = backbone.base_weights, backbone.base_bias
        assert weights is not None
        logits = old_logits(X, weights[old], None if bias is None else bias[old])
        logits = self.joint.old_factor * logits + self.joint.old_shift
        both = softmax(np.concatenate([logits, self.joint.logits(Z)], axis=1))
        before, classes = both[:, : len(old)], both[:, len(old) :]
        # Every class of a small backbone may be one of the user's: then nothing is left to be like.
        most_like = old[before.argmax(axis=1)] if len(old) else None
        return Probabilities(classes, before.sum(axis=1), most_like)

    def prepared(self, X: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Give features as the heads were learned for, (m, p)."""
        return X if self.normalisation is None else self.normalisation(X)

    def old_rows(self, backbone: Backbone) -> NDArray[np.int64]:
        """Give the rows of the backbone's base weights that stand for something else: all but the twins."""
        assert backbone.base_weights is not None
        kept = np.ones(len(backbone.base_weights), np.bool_)
        kept[[row for row, _ in self.set_aside]] = False
        return np.flatnonzero(kept)

    def load_backbone(
        self, source: str | Path | None = None, *, device: str = "cpu", threads: int | None = None
    ) -> Backbone:
        """Load the backbone that this model was learned with, or refuse another one."""
        backbone = self.backbone.load(source, device=device, threads=threads)
        old = 0 if backbone.base_weights is None else len(backbone.base_weights)
        fits = backbone.dim == self.examples.X.shape[1] and all(0 <= row < old for row, _ in self.set_aside)
        if not fits or (self.joint is not None and not old):
            raise FileFormatError(f"this model does not fit its own backbone {backbone.name}: its file is damaged")
        return backbone

    def save(self, path: str | Path) -> None:
        """Write the model, atomically."""
        from kshot.photos.model_file import write_model

        write_model(path, self)

    @classmethod
    def load(cls, path: str | Path) -> PhotoModel:
        """Read a model; one that is damaged, of another kind or of a newer format is refused in a sentence."""
        from kshot.photos.model_file import read_model

        return read_model(path)

    def __repr__(self) -> str:
        return f"PhotoModel({len(self.classes)} classes, {len(self.examples)} photographs, {self.backbone.name})"
