"""Newton's direction by conjugate gradients, in the inner product of the coordinates, for a batch of tasks at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kshot.inference.coordinates import Coordinates
from kshot.inference.likelihood import dot

__all__ = ["newton_direction"]

Floats = NDArray[np.float64]

_SLOW_SHARE = 0.1  # the batch does not wait for this share of its tasks: their next step is a little less exact
_MOST_PRODUCTS = 200


def newton_direction(
    coordinates: Coordinates,
    hessian_product: Callable[..., Floats],
    residual: Floats,
    *,
    forcing: Floats,
    bend: tuple[Floats, Floats, Floats] | None = None,
) -> Floats:
    """Solve (τ I − κ u⟨u, ·⟩ + lift · S W · image) δ = residual, to `forcing` times the residual's length.

    With a Gaussian prior in dual coordinates this is (I + S W K) δ = S(Y − P) − a. All arrays have the precision of
    `coordinates`. Where the curvature along a direction is not positive (a Student-t's may be so) a task stops with
    what it has.

    Arguments:
        coordinates: the map from δ to logits, with its inner product.
        hessian_product: from v and `out`, (C, tasks, n), to S W v.
        residual: minus the gradient, (C, tasks, r); it is overwritten.
        forcing: (tasks,).
        bend: u (C, tasks, r), τ and κ (C, tasks, 1) of the prior's energy; None for τ = 1 and κ = 0.
    """
    width = residual.shape[2]
    image = coordinates.image(residual)
    square = dot(residual, coordinates.pair(residual, image))
    goal = forcing**2 * square
    going = square > 0
    step, step_image, solution = residual.copy(), image.copy(), np.zeros_like(residual)
    for product in range(_MOST_PRODUCTS):
        pair = coordinates.pair(step, step_image)
        # The numbers of `image` are in step_image already, so its memory is free until the next product.
        curved = coordinates.lift(hessian_product(step_image, out=image))
        curved += step if bend is None else _bent(step, pair, *bend)
        curvature = dot(pair, curved)
        # A Student-t may be concave along a direction, and rounding may make a Gaussian look so.
        going &= curvature > 0
        length = np.divide(square, curvature, out=np.zeros_like(square), where=going)
        if bend is not None and product == 0:
            length[~going] = 1.0
        factor = _per_row(length, width)
        curved *= factor
        residual -= curved
        np.multiply(step, factor, out=curved)
        solution += curved
        image = coordinates.image(residual, out=image)
        before, square = square, dot(residual, coordinates.pair(residual, image))
        going &= square > goal
        if np.count_nonzero(going) <= _SLOW_SHARE * going.size:
            break
        factor = _per_row(np.divide(square, before, out=np.zeros_like(square), where=going), width)
        step *= factor
        step += residual
        if width != image.shape[2]:
            factor = _per_row(factor[:, 0], image.shape[2])
        step_image *= factor
        step_image += image
    return solution


def _bent(step: Floats, pair: Floats, u: Floats, stiffness: Floats, softening: Floats) -> Floats:
    along = np.einsum("ctr,ctr->ct", u, pair)[..., None]
    out: Floats = stiffness * step - softening * along * u
    return out


def _per_row(values: Floats, width: int) -> Floats:
    """Repeat a number per task along the last axis: NumPy's loops are then over whole arrays, not over short rows."""
    return values.repeat(width).reshape(values.size, width)
