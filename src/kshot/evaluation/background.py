"""Calibrate the answer "something else": new classes beside a network's own, flattened and weighed (`Background`).

Simulated on base classes: some are taken out of the base weights and learned as new; some are taken out and are
unrelated, which the network has no row for either; and some stay. Half of the queries are of the new classes, a quarter
each of the other two, and the right answer to those is "something else", whichever row has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Background, Calibration, GaussianPrior, Temperature
from kshot.datasets.tasks import draw_tasks
from kshot.errors import UserError
from kshot.inference.beside import fit_beside
from kshot.inference.posterior import log_sum

__all__ = [
    "FLATNESS",
    "SHARE",
    "UNRELATED",
    "Simulated",
    "calibrate_background",
    "doubt_of",
    "fit_weights",
    "new_logits",
    "simulate_unrelated",
    "weighted_loss",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

FLATNESS = 0.5
"""Of the old logits. On base classes left out, 0.15 to 0.5 are equally good; the most is kept of what the rows know."""

SHARE = 0.1
"""Of photographs of something else among all that are shown to a model, as its probabilities assume it."""
UNRELATED = 0.04
"""Of the answers, what may be of unrelated photographs even if these are as many as the others."""

_ROUNDS, _TASKS, _QUERIES = 6, 40, 10


@dataclass(frozen=True, eq=False)
class Simulated:
    """Tasks of one round, whose old rows are the same.

    Arguments:
        support, labels: rows of the examples and their classes, (tasks, n).
        query: rows of the queries, (tasks, 4m): 2m of the new classes, m unrelated ones without a row, m with one.
        query_labels: of the first 2m, (tasks, 2m).
        rest: ln Σ_old exp(flatness · f_old) of every image, (images,).
    """

    support: Rows
    labels: Rows
    query: Rows
    query_labels: Rows
    rest: Floats


def calibrate_background(  # noqa: D417  (some arguments are explained in one line)
    prior: GaussianPrior,
    X: NDArray[np.floating[Any]],
    y: Rows,
    *,
    base_weights: Floats,
    base_bias: Floats | None = None,
    closed: Calibration,
    ways: int = 5,
    shots: Sequence[int] = (1, 2, 5, 10, 20),
    seed: int = 0,
) -> Calibration:
    """Fit temperature and weight of the old classes to simulated tasks, with the scale of the closed setting.

    For given features both are a convex problem of two numbers for each number of shots.

    Arguments:
        prior: the isotropic prior of the base weights.
        X, y: features of base images, (n, p), and their rows of the base weights, (n,).
        base_weights, base_bias: of all old classes, (B, p) and (B,).
        closed: the calibration of the closed setting, whose scale and normalisation are taken.
        ways: classes in a task.
        shots: numbers of examples per class.
        seed: decides the tasks.
    """
    if closed.normalisation is None:
        raise UserError("a background is calibrated for normalised features: closed must have a normalisation")
    variance = closed.apply(prior).prior.covariance.variance
    Z = closed.normalisation(X)
    found = {}
    report: dict[str, Any] = {"tasks": _ROUNDS * _TASKS, "ways": ways, "share": SHARE, "log_likelihood": {}}
    doubt = {}
    for k in shots:
        rounds = simulate_unrelated(X, y, base_weights, base_bias, ways=ways, shots=k, seed=seed)
        logits = [new_logits(variance, Z, each) for each in rounds]
        found[k], likelihood = fit_weights(logits, rounds)
        report["log_likelihood"][str(k)] = round(likelihood, 4)
        found[k][1] += np.log(SHARE / (1 - SHARE))  # they were half of the queries
        doubt[k] = doubt_of(logits, rounds, found[k])
    knots = tuple(float(k) for k in shots)
    temperature = Temperature(knots, tuple(found[k][0] for k in shots))
    weight = Temperature(knots, tuple(float(np.exp(found[k][1])) for k in shots))
    background = Background(FLATNESS, weight, Temperature(knots, tuple(doubt[k] for k in shots)))
    return Calibration(closed.scale, temperature, "map", "joint", report, closed.normalisation, background)


def simulate_unrelated(
    X: NDArray[np.floating[Any]],
    y: Rows,
    base_weights: Floats,
    base_bias: Floats | None,
    *,
    ways: int = 5,
    shots: int = 5,
    rounds: int = _ROUNDS,
    tasks: int = _TASKS,
    queries: int = _QUERIES,
    seed: int = 0,
) -> list[Simulated]:
    """Draw rounds of tasks, each round with a quarter of the classes new, a quarter unrelated, and the others old.

    `queries` of each class, or as many as the smallest class has beside its examples.
    """
    logits = X.astype(np.float64) @ base_weights.T + (0.0 if base_bias is None else base_bias)
    random = np.random.default_rng(seed)
    labels, counts = np.unique(y, return_counts=True)
    queries = max(1, min(queries, int(counts.min()) - shots))
    part = len(labels) // 4
    if part < ways:
        raise UserError(
            f"there are images of {len(labels)} base classes, and at least {4 * ways} are needed to learn {ways} new "
            "ones beside unrelated and old ones: give images of more classes"
        )
    out = []
    for _ in range(rounds):
        order = random.permutation(labels)
        new, unrelated, staying = order[:part], order[part : 2 * part], order[2 * part :]
        rows = np.flatnonzero(np.isin(y, new))
        drawn = draw_tasks(
            y[rows], ways=ways, shots=shots, queries=queries, tasks=tasks, seed=int(random.integers(2**31))
        )
        many = (ways * queries + 1) // 2
        others = [random.choice(np.flatnonzero(np.isin(y, of)), (tasks, many)) for of in (unrelated, staying)]
        kept = np.setdiff1d(np.arange(len(base_weights)), order[: 2 * part])
        rest = log_sum(FLATNESS * logits[:, kept])
        query = np.concatenate([rows[drawn.query], *others], axis=1)
        out.append(Simulated(rows[drawn.support], drawn.support_labels, query, drawn.query_labels, rest))
    return out


def fit_weights(logits: Sequence[Floats], rounds: Sequence[Simulated]) -> tuple[Any, float]:
    """Give T and ln weight of the highest mean log-likelihood, new and other queries counting half each; and that."""
    from scipy.optimize import minimize

    def loss(point: Floats) -> tuple[float, Floats]:
        value, gradient = 0.0, np.zeros(2)
        for f, each in zip(logits, rounds, strict=True):
            known = each.query_labels.shape[1]
            log_proba = _log_proba(f, each, point[0], point[1])
            value += _loss(log_proba, each)
            p = np.exp(log_proba)
            pull = (p[..., :-1] * f).sum(axis=2)
            pull[:, :known] -= np.take_along_axis(f[:, :known], each.query_labels[..., None], axis=2)[..., 0]
            gradient[0] += 0.5 * (pull[:, :known].mean() + pull[:, known:].mean())
            gradient[1] += 0.5 * (p[:, :known, -1].mean() + p[:, known:, -1].mean() - 1)
        return value / len(logits), gradient / len(logits)

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-6})
    return found.x, -float(found.fun)


def weighted_loss(logits: Floats, each: Simulated, temperature: float, shift: float) -> float:
    """Give −mean ln p(answer) of a round, new and other queries counting half each."""
    return _loss(_log_proba(logits, each, temperature, shift), each)


def doubt_of(logits: Sequence[Floats], rounds: Sequence[Simulated], point: Floats) -> float:
    """Give the highest p(something else) beside which a class may be answered.

    Among the answers below it, at most `UNRELATED` are of unrelated photographs when these are as many as the others.
    """
    own, other = [], []
    for f, each in zip(logits, rounds, strict=True):
        known = each.query_labels.shape[1]
        p = np.exp(_log_proba(f, each, point[0], point[1])[..., -1])
        own.append(p[:, :known].ravel())
        other.append(p[:, known:].ravel())
    right, wrong = np.sort(np.concatenate(own)), np.sort(np.concatenate(other))
    doubts = np.geomspace(0.5, 1e-4, 200)
    answered, mistaken = (np.searchsorted(each, doubts, side="right") / len(each) for each in (right, wrong))
    (fine,) = np.nonzero(mistaken <= UNRELATED * (mistaken + answered))
    return float(doubts[fine[0]]) if len(fine) else float(doubts[-1])


def new_logits(variance: float, Z: Floats, each: Simulated) -> Floats:
    """Learn the tasks of a round beside its old classes; give the new logits at the queries, (tasks, 4m, C)."""
    weights = fit_beside(variance, Z[each.support], each.labels, each.rest[each.support])
    return np.asarray(Z[each.query] @ weights.transpose(0, 2, 1))


def _log_proba(logits: Floats, each: Simulated, temperature: float, shift: float) -> Floats:
    """Give ln p of the new classes and of something else, the last, at the queries of a round, (tasks, 4m, C + 1)."""
    both = np.concatenate([temperature * logits, (each.rest[each.query] + shift)[..., None]], axis=2)
    both -= log_sum(both)[..., None]
    return both


def _loss(log_proba: Floats, each: Simulated) -> float:
    known = each.query_labels.shape[1]
    own = np.take_along_axis(log_proba[:, :known], each.query_labels[..., None], axis=2)
    return -0.5 * float(own.mean() + log_proba[:, known:, -1].mean())
