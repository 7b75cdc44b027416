"""The gradient of a prior's log density: its own, or JAX's for a user's prior that has none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Prior
from kshot.errors import MissingExtraError, UserError

__all__ = ["double_precision", "value_and_gradient"]

Floats = NDArray[np.float64]


def value_and_gradient(prior: Prior) -> Callable[[Floats], tuple[float, Floats]]:
    """Give the function from weights (C, dim) to Σ_c ln p(w_c) and its gradient (C, dim)."""
    own = getattr(prior, "grad_log_prob", None)
    compute = _by_jax(prior) if own is None else lambda w: (prior.log_prob(w).sum(), own(w))

    def checked(weights: Floats) -> tuple[float, Floats]:
        value, gradient = compute(weights)
        gradient = np.asarray(gradient, dtype=np.float64)
        if gradient.shape != weights.shape or np.ndim(value):
            raise UserError(
                "the prior's log_prob must give one number per row and grad_log_prob one per entry: for weights of "
                f"shape {weights.shape} the gradient has shape {gradient.shape}"
            )
        return float(value), gradient

    return checked


def double_precision() -> AbstractContextManager[Any]:
    """Give a context in which JAX computes in float64; outside of it a user's JAX is as it was."""
    import jax

    if hasattr(jax, "enable_x64"):
        context: AbstractContextManager[Any] = jax.enable_x64(True)
    else:  # before JAX 0.8
        from jax.experimental import enable_x64

        context = enable_x64()
    return context


def _by_jax(prior: Prior) -> Callable[[Floats], tuple[Any, Any]]:
    try:
        import jax
    except ImportError:
        raise MissingExtraError("the gradient of a prior without grad_log_prob", "jax", extra="sample") from None
    compiled = jax.jit(jax.value_and_grad(lambda w: prior.log_prob(w).sum()))

    def compute(weights: Floats) -> tuple[Any, Any]:
        with double_precision():
            try:
                value, gradient = compiled(weights)
            except jax.errors.JAXTypeError:
                raise UserError(
                    f"{type(prior).__name__}.log_prob calls NumPy's functions or asks `if` of the weights, which JAX "
                    "cannot differentiate: take the array's own functions, `xp = weights.__array_namespace__()`, then "
                    "xp.exp(weights), xp.where(...) and so on; or give the prior a method grad_log_prob"
                ) from None
        return value, gradient

    return compute
