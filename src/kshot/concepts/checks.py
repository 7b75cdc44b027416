"""What every prior asks of its input, and the sentence it gives when the input is at fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kshot.concepts.covariance import Array, Floats
from kshot.errors import UserError

__all__ = ["as_matrix", "as_vectors", "as_weights", "check_choice", "check_finite", "check_varies", "generator"]


def as_matrix(values: ArrayLike, name: str, *, ndim: int = 2) -> Floats:
    """Copy `values` to a float64 array of `ndim` dimensions, or say in a sentence why `name` cannot be one."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(
            f"{name} must be an array of numbers with {ndim} dimension(s), all rows of one length"
        ) from None
    if array.ndim != ndim:
        raise UserError(f"{name} must have {ndim} dimension(s), and its shape is {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise UserError(
            f"{name} holds a NaN or an infinity in row {row}: leave such rows out, or train the layer again"
        )
    return array


def as_vectors(base_weights: ArrayLike, bias: ArrayLike | None = None) -> Floats:
    """Give the base classes' weight vectors, (C̃, p), or with a bias (C̃, p + 1): the bias is the last coordinate."""
    vectors = as_matrix(base_weights, "base_weights")
    if vectors.shape[0] < 2 or vectors.shape[1] < 1:
        raise UserError(
            f"base_weights must hold at least two vectors, one row per base class, and its shape is {vectors.shape}"
        )
    if bias is None:
        return vectors
    column = as_matrix(bias, "bias", ndim=1)
    if column.size != vectors.shape[0]:
        raise UserError(
            f"bias must have one number per base class, {vectors.shape[0]} of them, and it has {column.size}"
        )
    return np.column_stack([vectors, column])


def check_varies(vectors: Floats, *, has_bias: bool, lambda0: ArrayLike | None = None) -> None:
    """Refuse a coordinate that is the same in all vectors, unless Λ₀ gives every coordinate a variance of its own."""
    if lambda0 is not None:
        scale = np.asarray(lambda0)
        if (np.diag(scale) > 0 if scale.ndim == 2 else scale > 0).all():
            return
    constant = np.flatnonzero(vectors.max(axis=0) == vectors.min(axis=0))
    if not constant.size:
        return
    first = int(constant[0])
    if has_bias and first == vectors.shape[1] - 1:
        raise UserError("bias is the same for every base class, so it has no variance: leave it out (bias=None)")
    raise UserError(
        f"base_weights has zero variance in dimension {first} ({constant.size} such in all): remove the feature "
        f"(np.delete(base_weights, {first}, axis=1)), here and from the features of images"
    )


def check_finite(values: Floats, name: str) -> None:
    """Refuse NaN and infinity among a prior's parameters: every probability would silently be NaN."""
    if not np.isfinite(values).all():
        raise UserError(f"{name} must hold finite numbers, and it holds a NaN or an infinity: see where it comes from")


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of `choices`."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}, and it is {value!r}")


def as_weights(weights: Array, dim: int) -> Array:
    """Give `weights` as an array of the caller's kind (NumPy's for a list), after checking its last dimension."""
    if not hasattr(weights, "__array_namespace__"):
        weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim == 0 or weights.shape[-1] != dim:
        raise UserError(f"weights must have {dim} columns, as the prior has, and its shape is {weights.shape}")
    return weights


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Give NumPy's generator for a seed, or the one that was given."""
    return np.random.default_rng(seed)
