"""An evaluation that was stopped goes on where it was, and never with another's predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kshot
from kshot.datasets.tasks import Tasks
from kshot.evaluation import baselines
from kshot.evaluation.cache import identity
from kshot.evaluation.logistic import Multinomial
from kshot.evaluation.runner import run, table, timings

OPTIONS = {"shots": (1, 2), "tasks": 6, "ways": 3}


@pytest.fixture(scope="module")
def features() -> kshot.Features:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 30)
    return kshot.Features(
        random.normal(size=(5, 4))[y] + random.normal(size=(150, 4)), y, base_weights=random.normal(size=(9, 4))
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often the class means are computed, by their number of shots."""
    made: list[int] = []

    def counted(features: kshot.Features, tasks: Tasks) -> np.ndarray:
        made.append(tasks.shots)
        return baselines.class_mean(features, tasks)

    monkeypatch.setitem(baselines.BASELINES, "class-mean", counted)
    return made


def test_a_second_run_reads_what_the_first_one_found(features, calls: list[int], tmp_path: Path) -> None:
    fresh = kshot.evaluate(features, ["class-mean", "svm", "logreg-cv"], **OPTIONS)
    first, second = (
        kshot.evaluate(features, ["class-mean", "svm", "logreg-cv"], cache=tmp_path / "new", **OPTIONS)
        for _ in range(2)
    )
    assert calls == [1, 2, 1, 2]  # without a cache, and once with it
    assert fresh.equals(first) and first.equals(second)


def test_a_run_that_was_killed_goes_on_where_it_was(features, calls: list[int], tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class Deadly:
        name = "deadly"

        def __call__(self, features: kshot.Features, tasks: Tasks) -> np.ndarray:
            raise Killed

    with pytest.raises(Killed):
        list(run(features, ["class-mean", Deadly(), "nearest"], cache=tmp_path, **OPTIONS))
    assert calls == [1, 2] and len(list(tmp_path.iterdir())) == 2  # nothing half-written
    outcomes = list(run(features, ["class-mean", "nearest"], cache=tmp_path, **OPTIONS))
    assert calls == [1, 2]
    assert table(outcomes).equals(kshot.evaluate(features, ["class-mean", "nearest"], **OPTIONS))
    assert (timings(outcomes)["seconds"] > 0).all()


@pytest.mark.parametrize("change", [{"seed": 1}, {"queries": 7}, {"ways": 4}, {"tasks": 10, "protocol": "splits"}])
def test_other_tasks_are_computed_anew(features, calls: list[int], tmp_path: Path, change) -> None:
    kshot.evaluate(features, ["class-mean"], cache=tmp_path, **OPTIONS)
    options = OPTIONS | change
    cached = kshot.evaluate(features, ["class-mean"], cache=tmp_path, **options)
    assert calls == [1, 2, 1, 2]
    assert cached.equals(kshot.evaluate(features, ["class-mean"], **options))


@pytest.mark.parametrize("part", ["X", "base_weights"])
def test_other_features_are_computed_anew(features, calls: list[int], tmp_path: Path, part: str) -> None:
    kshot.evaluate(features, ["class-mean"], cache=tmp_path, **OPTIONS)
    arguments = {"X": features.X, "base_weights": features.base_weights}
    arguments[part] = arguments[part] + 1e-3
    kshot.evaluate(kshot.Features(y=features.y, **arguments), ["class-mean"], cache=tmp_path, **OPTIONS)
    assert calls == [1, 2, 1, 2]


def test_a_file_under_anothers_name_is_refused(features: kshot.Features, tmp_path: Path) -> None:
    for seed in (0, 1):
        kshot.evaluate(features, ["nearest"], cache=tmp_path / str(seed), **(OPTIONS | {"shots": (1,)}), seed=seed)
    (one,), (other,) = (tmp_path / "0").iterdir(), (tmp_path / "1").iterdir()
    other.replace(one)
    with pytest.raises(ValueError, match="something else than its name says: delete it"):
        kshot.evaluate(features, ["nearest"], cache=tmp_path / "0", **(OPTIONS | {"shots": (1,)}))


def test_a_damaged_file_is_named(features: kshot.Features, tmp_path: Path) -> None:
    kshot.evaluate(features, ["nearest"], cache=tmp_path, **(OPTIONS | {"shots": (1,)}))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=path.name):
        kshot.evaluate(features, ["nearest"], cache=tmp_path, **(OPTIONS | {"shots": (1,)}))


def test_objects_are_known_by_what_they_are_made_of(features: kshot.Features) -> None:
    assert identity(LogisticRegression(C=0.1)) == identity(LogisticRegression(C=0.1))
    assert identity(LogisticRegression(C=0.1)) != identity(LogisticRegression(C=0.2))
    assert identity(Multinomial(0.1)) != identity(Multinomial(0.2))
    one, same, other = (kshot.GaussianPrior.fit(features.base_weights * scale) for scale in (1, 1, 2))
    assert identity(one) == identity(same) != identity(other)
    assert identity(kshot.GaussianPrior) not in (None, identity(one))


def test_what_nothing_identifies_is_computed_every_time(features: kshot.Features, tmp_path: Path) -> None:
    class Mine(LogisticRegression):
        pass

    class MyPrior:
        def log_prob(self, weights):
            return -(weights**2).sum(axis=-1)

        def grad_log_prob(self, weights):
            return -2 * weights

    own = [Mine(), MyPrior(), MyPrior, make_pipeline(StandardScaler(), LogisticRegression())]
    assert [identity(method) for method in own] == [None] * 4
    kshot.evaluate(features, own, cache=tmp_path, **OPTIONS)
    assert not list(tmp_path.iterdir())
