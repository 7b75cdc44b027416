"""More classes need a lower temperature, by a power that simulated tasks of several numbers of classes give."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kshot
from kshot.concepts import Calibration, ScaledIdentity, Temperature
from kshot.evaluation.profile import predict
from kshot.evaluation.simulation import simulate
from kshot.evaluation.ways import WAYS, closed_exponent

RNG = np.random.default_rng(0)
DIM, CLASSES, IMAGES = 12, 24, 24
PRIOR = kshot.GaussianPrior(np.zeros(DIM), ScaledIdentity(1.0, dim=DIM))
Y = np.repeat(np.arange(CLASSES), IMAGES)
Z = 2 * RNG.standard_normal((CLASSES, DIM))[Y] + 2 * RNG.standard_normal((len(Y), DIM))
CALIBRATION = Calibration(0.05, Temperature((1, 5, 10), (4.0, 3.0, 2.5)))


@pytest.mark.slow
def test_the_exponent_is_the_best_of_a_grid() -> None:
    found = closed_exponent(CALIBRATION, PRIOR, Z, Y)

    def likelihood(exponent: float) -> float:
        total = []
        for ways in WAYS:
            rounds = simulate(Z, Y, ways=ways, shots=(1, 5, 10), queries=10, tasks=max(20, 600 // ways), seed=0)
            for k in (1, 5, 10):
                predictions = predict(PRIOR.scaled(0.05), Z, rounds, k, "map", seed=0)
                log_temperature = math.log(CALIBRATION.temperature(k)) - exponent * math.log(ways / 5)
                total.append(predictions.log_likelihood(log_temperature).mean() / math.log(ways))
        return float(np.mean(total))

    best = max(np.linspace(-0.4, 0.9, 14), key=likelihood)
    assert abs(found - best) <= 0.1
    assert likelihood(found) >= likelihood(float(best)) - 1e-6


def test_with_other_numbers_of_classes_the_temperature_follows_the_power() -> None:
    prior = Calibration(1.0, Temperature((1,), (2.0,)), exponent=0.5).apply(PRIOR)
    assert prior.ways_factor(5) == 1 and prior.ways_factor(20) == pytest.approx(0.5)
    X, y = RNG.standard_normal((1, 20, DIM)), np.arange(20)[None]
    _, info = kshot.fit_tasks(prior, X, y, X_query=X)
    plain = Calibration(1.0, Temperature((1,), (1.0,))).apply(PRIOR)
    np.testing.assert_allclose(info.proba, kshot.fit_tasks(plain, X, y, X_query=X)[1].proba, atol=1e-9)


def test_too_few_images_leave_the_temperature_as_it_is() -> None:
    assert closed_exponent(CALIBRATION, PRIOR, Z[::4], Y[::4]) == 0.0
