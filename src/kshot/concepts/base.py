"""The law of priors: a density over class weights, with one required method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.concepts.covariance import Array, Floats
from kshot.errors import FileFormatError, UserError

__all__ = ["ConceptPrior", "Prior", "family_of", "load_prior"]

_KIND, _FORMAT = "prior", 1
_FAMILIES: dict[str, type[ConceptPrior]] = {}


@runtime_checkable
class Prior(Protocol):
    """Anything with a log density over weight vectors: `log_prob(weights)`, (n, p) -> (n,).

    The density need not be normalised for inference. Written with `xp = weights.__array_namespace__()` it takes NumPy
    and JAX arrays alike, and JAX gives its gradient; a method `grad_log_prob`, (n, p) -> (n, p), makes JAX needless.
    """

    def log_prob(self, weights: Any, /) -> Any:
        """Give the log density of each row, (n, p) -> (n,)."""


class ConceptPrior(ABC):
    """A prior p(w | W̃) that was fitted to the weights of the base classes (phase 2, Section 2.1).

    `dim` is the length of its vectors: p, or with a bias p + 1, the bias being the last coordinate. With `has_bias` the
    library appends a constant feature 1 to the features. Priors are immutable.
    """

    family: ClassVar[str]
    is_gaussian: ClassVar[bool] = False
    has_bias: bool

    if TYPE_CHECKING:  # a field in some families and computed in others

        @property
        def mean(self) -> Floats:
            """The centre of the density, (dim,)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "family" in cls.__dict__:
            _FAMILIES[cls.family] = cls

    @property
    def dim(self) -> int:
        """The length of the vectors that this is a density of."""
        return self.mean.size

    @abstractmethod
    def log_prob(self, weights: Array) -> Array:
        """Give the exact, normalised log density of each row, (..., dim) -> (...); NumPy or JAX arrays."""

    @abstractmethod
    def grad_log_prob(self, weights: Array) -> Array:
        """Give the gradient of `log_prob` in each row, (..., dim) -> (..., dim); NumPy or JAX arrays."""

    @abstractmethod
    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors, (n, dim)."""

    @abstractmethod
    def _scaled(self, s: float) -> Self: ...

    def scaled(self, s: float) -> Self:
        """Give the same density stretched about its mean: w → mean + √s (w − mean), so covariances grow by `s`."""
        if not (np.isfinite(s) and s > 0):
            raise UserError(f"s must be a positive number, and it is {s}")
        return self._scaled(float(s))

    @abstractmethod
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give the numbers that define the density, as plain arrays."""

    @classmethod
    @abstractmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self: ...

    def save(self, path: str | Path) -> None:
        """Write the prior to `path` (safetensors with JSON metadata)."""
        metadata = {"family": self.family, "has_bias": self.has_bias}
        files.write(path, self.parameters(), kind=_KIND, version=_FORMAT, metadata=metadata)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a prior of this family from the file that `save` wrote."""
        prior = load_prior(path)
        if not isinstance(prior, cls):
            raise FileFormatError(f"{path} holds a {type(prior).__name__}, not a {cls.__name__}: use kshot.load_prior")
        return prior


def load_prior(path: str | Path) -> ConceptPrior:
    """Read a prior of any family from the file that its `save` wrote."""
    parameters, header = files.read(path, kind=_KIND, version=_FORMAT)
    try:
        family = family_of(str(header.get("family")))
        return family._from_parameters(parameters, has_bias=bool(header["has_bias"]))
    except KeyError as missing:
        raise FileFormatError(f"{path} is damaged: it lacks {missing}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None


def family_of(name: str) -> type[ConceptPrior]:
    """Give the class of a family's name in a file."""
    if name not in _FAMILIES:
        raise FileFormatError(f"it holds a prior of an unknown family ({name!r}), so upgrade kshot")
    return _FAMILIES[name]
