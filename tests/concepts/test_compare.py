"""`compare_priors` scores a prior as its `fit` would, and ranks the family that the weights were drawn from first."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from scipy.stats import invwishart

from kshot import GaussianPrior, LaplacePrior, MixturePrior, StudentTPrior, compare_priors
from kshot.concepts import Cholesky, Diagonal, ScaledIdentity
from kshot.concepts.compare import TABLE_9
from kshot.concepts.evidence import Splits

NINE = [
    "gauss-iso",
    "gauss-full",
    "student-t",
    "gmm-3-iso",
    "gmm-3-diag",
    "gmm-10-iso",
    "gmm-10-diag",
    "laplace-iso",
    "laplace-diag",
]


def correlated(n: int, dim: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return 0.05 * random.normal(size=(n, dim)) @ random.normal(size=(dim, dim)) + 0.1


def test_table_has_the_nine_rows_of_the_paper_and_their_hyperparameters() -> None:
    table = compare_priors(correlated(30, 3), splits=3, held_out=5)
    assert list(TABLE_9) == NINE
    assert table["method"].tolist() == NINE
    assert table["model"][1] == "Gauss (MAP, full)"
    assert table["model"][6] == "GMM (10, diag)"
    assert np.isfinite(table[["neg_log_prob", "standard_error", "behind", "behind_error"]].to_numpy()).all()
    assert (table["standard_error"] > 0).all()
    assert table["behind"].min() == 0
    assert table.loc[:2, ["mu0", "kappa0", "nu0", "lambda0"]].notna().to_numpy().all()
    assert table.loc[3:6, "regularisation"].notna().all()
    assert table["shrinkage"].notna().tolist() == [False] * 8 + [True]


@pytest.mark.parametrize("shape", [(40, 4), (12, 20)], ids=["more vectors", "more dimensions"])
@pytest.mark.parametrize(
    "method",
    ["gauss-iso", "gauss-diag", "gauss-full", "student-t", "gmm-2-iso", "gmm-2-full", "laplace-iso", "laplace-diag"],
)
def test_a_row_is_what_fit_gives_with_its_hyperparameters(method: str, shape: tuple[int, int]) -> None:
    """The searches use eigenvalues and closed forms; the answer must be that of the plain way."""
    weights = correlated(*shape)
    row = compare_priors(weights, splits=4, held_out=3, seed=5, methods=[method]).iloc[0]
    chosen = row[["mu0", "kappa0", "nu0", "lambda0", "regularisation", "shrinkage"]].dropna().to_dict()
    family, kind = {"student-t": ("student", "full")}.get(method, (method.split("-")[0], method.split("-")[-1]))
    means = []
    for split, (train, held) in enumerate(Splits.draw(weights, splits=4, held_out=3, seed=5)):
        assert len(train) == shape[0] - 3
        if family == "gauss":
            prior = GaussianPrior.fit(train, covariance=kind, **chosen)
        elif family == "student":
            prior = StudentTPrior.fit(train, **chosen)
        elif family == "gmm":
            prior = MixturePrior.fit(train, components=2, covariance=kind, seed=5 + split, **chosen)
        else:
            prior = LaplacePrior.fit(train, scale=kind, **chosen)
        means.append(-prior.log_prob(held).mean())
    assert row["neg_log_prob"] == pytest.approx(np.mean(means), rel=1e-7)
    assert row["standard_error"] == pytest.approx(np.std(means, ddof=1) / 2, rel=1e-6)


@pytest.mark.parametrize("method", ["gauss-iso", "gauss-diag", "gauss-full", "student-t"])
def test_no_other_hyperparameters_are_better(method: str) -> None:
    weights = correlated(40, 4)
    row = compare_priors(weights, splits=4, held_out=5, methods=[method]).iloc[0]
    splits = list(Splits.draw(weights, splits=4, held_out=5, seed=0))
    chosen = {name: row[name] for name in ("kappa0", "nu0", "lambda0")}

    def score(**changed: float) -> float:
        options = {"mu0": 0.0, **chosen, **changed}
        if method != "student-t":
            options["covariance"] = method.split("-")[1]
        fit = StudentTPrior.fit if method == "student-t" else GaussianPrior.fit
        return float(np.mean([-fit(train, **options).log_prob(held).mean() for train, held in splits]))

    best = score()
    for name, value in chosen.items():
        for factor in (0.8, 0.97, 1.03, 1.25):
            assert score(**{name: value * factor}) > best - 1e-6


def truth(method: str, random: np.random.Generator, dim: int = 3, n: int = 300) -> np.ndarray:
    """Draw weights of which `method` is the true family."""
    family, *rest = method.split("-")
    kind = rest[-1]
    centre = random.normal(size=dim)
    full = Cholesky.from_dense(invwishart(dim + 2, np.eye(dim)).rvs(random_state=random))
    if family == "gauss":
        prior = GaussianPrior(centre, ScaledIdentity(0.4, dim) if kind == "iso" else full)
    elif family == "student":
        # The integrated prior is a belief about one unknown Gaussian, drawn here from the normal-inverse-Wishart.
        prior = GaussianPrior(centre, full)
    elif family == "laplace":
        level = random.normal() if kind == "iso" else centre
        prior = LaplacePrior(
            level * np.ones(dim), np.exp(random.normal(size=1 if kind == "iso" else dim)) * np.ones(dim)
        )
    else:
        s = int(rest[0])
        variances = random.uniform(0.05, 2, size=(s, 1 if kind == "iso" else dim))
        covariances = tuple(ScaledIdentity(v[0], dim) if kind == "iso" else Diagonal(v) for v in variances)
        prior = MixturePrior(np.full(s, 1 / s), 5 * random.normal(size=(s, dim)), covariances)
    return prior.sample(n, seed=random)


@pytest.mark.slow
@pytest.mark.parametrize("method", NINE)
def test_true_family_ranks_first_or_ties_within_its_error(method: str) -> None:
    weights = truth(method, np.random.default_rng(NINE.index(method)))
    table = compare_priors(weights, splits=10, held_out=30).set_index("method")
    assert table.loc[method, "behind"] <= table.loc[method, "standard_error"]
    # The families that cannot represent it are clearly worse: the comparison does compare.
    assert table["behind"].max() > 3 * table.loc[table["behind"].idxmax(), "behind_error"]


def test_integrating_pays_when_vectors_are_few() -> None:
    """With fewer vectors than dimensions, the Student-t is at least as good as the mode it is the integral of."""
    random = np.random.default_rng(0)
    weights = random.multivariate_normal(np.zeros(40), invwishart(60, np.eye(40)).rvs(random_state=1), size=30)
    table = compare_priors(weights, splits=20, methods=["gauss-full", "student-t"]).set_index("method")
    assert table.loc["student-t", "behind"] == 0


def test_same_seed_gives_the_same_table_and_methods_do_not_touch_each_other() -> None:
    weights = correlated(30, 3)
    methods = ["laplace-diag", "gmm-3-iso", "gauss-full"]
    first, again = (compare_priors(weights, splits=3, methods=methods, seed=4) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    alone = compare_priors(weights, splits=3, methods=["gmm-3-iso"], seed=4)
    assert alone.loc[0, "neg_log_prob"] == first.loc[1, "neg_log_prob"]
    assert (
        compare_priors(weights, splits=3, methods=["gmm-3-iso"], seed=5).loc[0, "neg_log_prob"]
        != alone.loc[0, "neg_log_prob"]
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"methods": ["gauss-tied"]}, "there is no prior 'gauss-tied'"),
        ({"methods": ["gmm-0-iso"]}, "there is no prior 'gmm-0-iso'"),
        ({"held_out": 21}, "held_out must leave at least 10 of the 30 vectors"),
        ({"held_out": 0}, "held_out must leave"),
        ({"splits": 1}, "splits must be at least 2"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        compare_priors(correlated(30, 3), **options)


def test_bad_base_weights_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="base_weights has zero variance in dimension 1"):
        compare_priors(correlated(30, 3) * [1, 0, 1])
    with pytest.raises(ValueError, match="base_weights holds a NaN"):
        compare_priors(correlated(30, 3) * [1, np.nan, 1])


@pytest.mark.slow
def test_nine_rows_of_50_splits_of_80_vectors_in_128_dimensions_take_under_a_minute() -> None:
    weights = 0.05 * np.random.default_rng(0).normal(size=(80, 128))
    start = time.perf_counter()
    table = compare_priors(weights)
    assert time.perf_counter() - start < 60
    assert table.set_index("method").loc["gauss-iso", "behind"] <= table["standard_error"][0]
