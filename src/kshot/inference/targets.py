"""The log densities that NUTS samples, in JAX: prior of the coordinates plus the softmax likelihood of one task."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kshot.concepts import Prior
from kshot.errors import UserError

__all__ = ["check_traceable", "log_density"]


def log_density(q: Any, data: dict[str, Any], family: str, prior: Prior | None) -> Any:
    """Give ln p(q) + Σ_n s_n ln p(y_n | f_n) up to a constant.

    Arguments:
        q: coordinates, (rows, columns).
        data: `target` (C, n), `weight` (n,), `rest` (n,) (minus infinity without old classes), and the arrays of the
            task's `Reduction`.
        family: of the reduction.
        prior: a user's own prior, for the family "own".
    """
    import jax.numpy as jnp

    z, spread = q, None
    if family == "gaussian":
        z, energy = data["rotation"].T @ q, 0.5 * (q * q).sum()
    elif family == "student-t":
        z, half = data["rotation"].T @ q[:, :-1], 0.5 * data["dof"]
        eta = q[:, -1] / jnp.sqrt(half)  # ln g; the density of η has the Jacobian in it
        energy = 0.5 * (z * z).sum() - half * (eta - jnp.exp(eta)).sum()
        spread = jnp.exp(-0.5 * eta)
    elif family == "mixture":
        white = jnp.einsum("kcr,ksr->kcs", q[None] - data["means"][:, None, :], data["inverse"])
        joint = data["constant"][:, None] - 0.5 * (white * white).sum(axis=2)
        energy = -_logsumexp(joint).sum()
    elif family == "laplace":
        z, energy = _laplace_of_normal()(q), 0.5 * (q * q).sum()
    else:
        assert prior is not None
        energy = -prior.log_prob(q).sum()
    f = z @ data["factor"]
    if spread is not None:
        f = f * spread[:, None]
    return _log_likelihood()(f + data["offset"], data["target"], data["weight"], data["rest"]) - energy


@cache
def _laplace_of_normal() -> Any:
    """Give h(q) = sign(q) (−ln 2Φ(−|q|)), which makes Laplace variates of normal ones, with its slope φ(q)/Φ(−|q|)."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import log_ndtr

    def forward(q: Any) -> tuple[Any, Any]:
        tail = log_ndtr(-jnp.abs(q))
        slope = jnp.exp(-0.5 * q * q - 0.5 * np.log(2 * np.pi) - tail)
        return -jnp.sign(q) * (tail + np.log(2)), slope

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def laplace_of_normal(q: Any) -> Any:
        return forward(q)[0]

    laplace_of_normal.defvjp(forward, lambda slope, cotangent: (cotangent * slope,))
    return laplace_of_normal


def _logsumexp(values: Any) -> Any:
    import jax

    return jax.nn.logsumexp(values, axis=0)


@cache
def _log_likelihood() -> Any:
    """Give Σ_n s_n ln p(y_n | f_n) with its gradient S(Y − P) written out, which is faster than JAX's own."""
    import jax
    import jax.numpy as jnp

    def forward(f: Any, target: Any, weight: Any, rest: Any) -> tuple[Any, Any]:
        top = jnp.maximum(f.max(axis=0), rest)
        grown = jnp.exp(f - top)
        total = grown.sum(axis=0) + jnp.exp(rest - top)
        value = (target * f).sum() - (weight * (top + jnp.log(total))).sum()
        return value, target - weight * grown / total

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def log_likelihood(f: Any, target: Any, weight: Any, rest: Any) -> Any:
        return forward(f, target, weight, rest)[0]

    log_likelihood.defvjp(forward, lambda pull, cotangent: (cotangent * pull, None, None, None))
    return log_likelihood


def check_traceable(prior: Prior, dim: int) -> None:
    """Refuse a user's `log_prob` that JAX cannot follow, or that gives something else than a number per row."""
    import jax
    import jax.numpy as jnp

    try:
        shape = jax.eval_shape(lambda w: prior.log_prob(w), jax.ShapeDtypeStruct((2, dim), jnp.float64)).shape
    except (jax.errors.JAXTypeError, AttributeError, TypeError, NotImplementedError) as error:
        raise UserError(
            f'{type(prior).__name__}.log_prob must work on JAX arrays for inference="nuts": take its functions from '
            f"xp = weights.__array_namespace__(), xp.exp and not np.exp (JAX says: {str(error).splitlines()[0]})"
        ) from error
    if shape != (2,):
        raise UserError(
            f"{type(prior).__name__}.log_prob must give one number per row, and for 2 rows its shape is {shape}"
        )
