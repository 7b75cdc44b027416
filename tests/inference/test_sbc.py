"""Simulation-based calibration (Talts et al. 2018): the rank of the true weights among the draws is uniform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

import kshot
from kshot.concepts import Cholesky, Prior, ScaledIdentity
from kshot.inference import NUTS
from kshot.inference.tasks import Tasks

pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = [
    pytest.mark.sample,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::kshot.inference.SamplingWarning"),
]

TASKS, EXAMPLES, WAYS, KEPT, THIN, BINS = 256, 5, 2, 31, 4, 8
SETTINGS = NUTS(chains=1, warmup=100, draws=THIN * KEPT, jobs=1)


class Own:
    """A user's prior of two dimensions: a Gaussian with correlated coordinates."""

    def __init__(self) -> None:
        self._density = kshot.GaussianPrior([0.5, -0.5], Cholesky([[1.0, 0.0], [0.8, 0.6]]))

    def log_prob(self, weights: Any, /) -> Any:
        return self._density.log_prob(weights)

    def sample(self, n: int, *, seed: int) -> NDArray[np.float64]:
        return self._density.sample(n, seed=seed)


def mixture() -> kshot.MixturePrior:
    means = np.array([[-1.0, 0.0], [1.0, 0.5]])
    return kshot.MixturePrior(np.array([0.4, 0.6]), means, (ScaledIdentity(0.4, 2), ScaledIdentity(1.0, 2)))


PRIORS: dict[str, tuple[Any, int]] = {
    "gaussian": (kshot.GaussianPrior([0.3, 0.0, -0.3], ScaledIdentity(2.0, 3)), 3),
    "student-t": (kshot.StudentTPrior([0.3, 0.0], ScaledIdentity(1.0, 2), 4.0), 2),
    "mixture": (mixture(), 2),
    "laplace": (kshot.LaplacePrior([0.3], [1.0]), 1),
    "own": (Own(), 2),
}


def ranks(prior: Any, dim: int, model: Prior) -> NDArray[np.int64]:
    """Draw weights from `prior`, then labels; rank each weight and each difference of two among draws under `model`."""
    random = np.random.default_rng(7)
    W = prior.sample(TASKS * WAYS, seed=1).reshape(TASKS, WAYS, dim)
    X = 1.5 * random.normal(size=(TASKS, EXAMPLES, dim))
    logits = X @ W.swapaxes(1, 2)
    y = (logits + random.gumbel(size=logits.shape)).argmax(axis=2)
    from kshot.inference.nuts import infer

    tasks = Tasks.check(X, y, ways=WAYS)
    posterior = infer(model, tasks, temperature=np.ones(TASKS), random_state=0, settings=SETTINGS)
    found = []
    for task in range(TASKS):
        truth, draws = W[task], posterior.sample_weights(task)[::THIN]
        below = [(draws < truth).sum(axis=0).ravel(), (draws[:, 0] - draws[:, 1] < truth[0] - truth[1]).sum(axis=0)]
        found.append(np.concatenate(below))
    return np.array(found)


def smallest_p_value(ranks: NDArray[np.int64]) -> float:
    """Give the smallest of the columns' chi-squared tests of uniformity, times their number."""
    smallest = 1.0
    for column in ranks.T:
        counts = np.bincount(column * BINS // (KEPT + 1), minlength=BINS)
        smallest = min(smallest, chi2.sf(((counts - TASKS / BINS) ** 2 / (TASKS / BINS)).sum(), BINS - 1))
    return float(smallest * ranks.shape[1])


@pytest.mark.parametrize("name", list(PRIORS))
def test_ranks_of_true_weights_are_uniform(name: str) -> None:
    prior, dim = PRIORS[name]
    assert smallest_p_value(ranks(prior, dim, prior)) > 0.01


def test_ranks_under_a_prior_that_is_too_narrow_are_not_uniform() -> None:
    """The test above can fail: half the standard deviation is noticed."""
    prior, dim = PRIORS["gaussian"]
    assert smallest_p_value(ranks(prior, dim, prior.scaled(0.25))) < 1e-6
