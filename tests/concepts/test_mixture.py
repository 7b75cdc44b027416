"""The mixture prior is scikit-learn's EM in units of the data, or one Gaussian to each given group."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from kshot import GaussianPrior, MixturePrior
from kshot.concepts import Diagonal, ScaledIdentity
from kshot.datasets.cifar100_classes import BASE_CLASSES, FINE_CLASSES, MERGED_9, SUPERCLASS_OF
from kshot.errors import UserError

SKLEARN = {"iso": "spherical", "diag": "diag", "full": "full"}


def three_clusters(n: int = 60, dim: int = 4, *, scale: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return scale * (8 * random.normal(size=(3, dim))[labels] + random.normal(size=(n, dim))), labels


def in_sklearn(prior: MixturePrior) -> GaussianMixture:
    """Put a prior's parameters into scikit-learn's class, to have its opinion on their density."""
    kind = prior.covariances[0].kind
    model = GaussianMixture(len(prior.means), covariance_type=SKLEARN[kind])
    model.weights_, model.means_ = np.asarray(prior.proportions), np.asarray(prior.means)
    dense = np.stack([c.dense() for c in prior.covariances])
    diagonals = np.stack([c.diagonal() for c in prior.covariances])
    model.covariances_ = {"iso": diagonals[:, 0], "diag": diagonals, "full": dense}[kind]
    roots = np.stack([np.linalg.inv(np.linalg.cholesky(matrix)).T for matrix in dense])
    model.precisions_cholesky_ = roots if kind == "full" else 1 / np.sqrt(model.covariances_)
    return model


@pytest.mark.parametrize("kind", SKLEARN)
def test_density_is_scikit_learns(kind: str) -> None:
    weights, _ = three_clusters()
    prior = MixturePrior.fit(weights, components=3, covariance=kind)
    model, at = in_sklearn(prior), prior.sample(50, seed=1)
    np.testing.assert_allclose(prior.log_prob(at), model.score_samples(at), rtol=1e-9)
    np.testing.assert_allclose(prior.responsibilities(at), model.predict_proba(at), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kind", SKLEARN)
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_em_finds_what_scikit_learn_finds_with_the_same_regularisation(kind: str, scale: float) -> None:
    weights, _ = three_clusters(scale=scale)
    prior = MixturePrior.fit(weights, components=3, covariance=kind, regularisation=1e-3)
    model = GaussianMixture(
        3, covariance_type=SKLEARN[kind], reg_covar=1e-3 * weights.var(axis=0).mean(), n_init=5, random_state=0
    ).fit(weights)
    ours, theirs = prior.means[:, 0].argsort(), model.means_[:, 0].argsort()
    np.testing.assert_allclose(prior.means[ours], model.means_[theirs], rtol=1e-6)
    np.testing.assert_allclose(prior.proportions[ours], model.weights_[theirs], rtol=1e-6)
    np.testing.assert_allclose(prior.log_prob(weights), model.score_samples(weights), rtol=1e-5, atol=1e-5)


def test_one_component_is_the_gaussian_prior(base_weights: np.ndarray) -> None:
    for kind in ("iso", "diag"):
        mixture = MixturePrior.fit(base_weights, components=1, covariance=kind, regularisation=1e-12)
        gaussian = GaussianPrior.fit(base_weights, covariance=kind)
        np.testing.assert_allclose(mixture.log_prob(base_weights), gaussian.log_prob(base_weights), rtol=1e-9)


@pytest.mark.parametrize("kind", SKLEARN)
def test_groups_are_fitted_one_by_one(kind: str) -> None:
    weights, labels = three_clusters(n=63)
    names = np.array(["birds", "fish", "trees"])[labels]
    names[:2] = "trees"
    prior = MixturePrior.fit(weights, groups=names, covariance=kind)
    np.testing.assert_allclose(prior.proportions, [20 / 63, 20 / 63, 23 / 63])
    for s, name in enumerate(("birds", "fish", "trees")):
        alone = GaussianPrior.fit(weights[names == name], covariance=kind)
        np.testing.assert_array_equal(prior.means[s], alone.mean)
        np.testing.assert_allclose(prior.covariances[s].dense(), alone.covariance.dense(), rtol=1e-14)


def test_groups_take_the_hyperparameters_of_c1() -> None:
    weights, labels = three_clusters()
    labels[0] = 7  # a group of one vector has a proper posterior all the same
    options = {"mu0": 0.0, "kappa0": 1.0, "lambda0": 2.0, "nu0": 3.0}
    prior = MixturePrior.fit(weights, groups=labels, **options)
    alone = GaussianPrior.fit(weights[labels == 1], **options)
    np.testing.assert_allclose(prior.covariances[1].diagonal(), alone.covariance.diagonal(), rtol=1e-14)
    assert len(prior.means) == 4


def test_groups_take_a_whole_scatter_lambda0_as_a_gaussian_does() -> None:
    weights, labels = np.random.default_rng(3).normal(size=(12, 4)), np.repeat([0, 1], 6)
    options = {"covariance": "diag", "kappa0": 1.0, "lambda0": np.full(4, 0.1), "nu0": 3.0}
    prior = MixturePrior.fit(weights, groups=labels, **options)
    alone = GaussianPrior.fit(weights[:6], **options)
    np.testing.assert_allclose(prior.means[0], alone.mean)
    np.testing.assert_allclose(prior.covariances[0].diagonal(), alone.covariance.diagonal())


def test_the_papers_nine_groups_of_its_80_base_classes_can_be_fitted() -> None:
    groups = [MERGED_9[SUPERCLASS_OF[FINE_CLASSES[label]]] for label in BASE_CLASSES]
    weights = 0.05 * np.random.default_rng(0).normal(size=(80, 128))
    prior = MixturePrior.fit(weights, groups=groups)
    assert len(prior.means) == 9
    np.testing.assert_allclose(prior.proportions, [groups.count(name) / 80 for name in sorted(set(groups))])
    assert all(isinstance(covariance, ScaledIdentity) for covariance in prior.covariances)


def test_mixture_of_isotropic_components_gives_the_bias_a_variance_of_its_own() -> None:
    weights, labels = three_clusters()
    bias = np.array([-5.0, 0.0, 20.0])[labels] + np.random.default_rng(1).normal(0, 0.01, size=60)
    prior = MixturePrior.fit(weights, components=3, bias=bias, regularisation=1e-6)
    order = prior.means[:, -1].argsort()
    np.testing.assert_allclose(prior.means[order, -1], [-5, 0, 20], atol=0.02)
    for covariance in prior.covariances:
        assert isinstance(covariance, Diagonal)
        assert len(np.unique(covariance.variances[:-1])) == 1
        assert covariance.variances[-1] < 1e-3 < covariance.variances[0]


def test_seed_decides_the_fit() -> None:
    weights = np.random.default_rng(0).normal(size=(40, 5))
    first, again = (MixturePrior.fit(weights, components=4, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first.means, again.means)


@pytest.mark.parametrize("kind", SKLEARN)
def test_more_dimensions_than_vectors_give_a_usable_density(kind: str) -> None:
    random = np.random.default_rng(0)
    weights, held_out = 0.05 * random.normal(size=(80, 128)), 0.05 * random.normal(size=(200, 128))
    prior = MixturePrior.fit(weights, components=10, covariance=kind)
    iso = GaussianPrior.fit(weights).log_prob(held_out).mean()
    # A mixture of ten is a bad model of these, but within a nat per dimension of the good one.
    assert iso - 128 < prior.log_prob(held_out).mean() < iso


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"components": 21}, "components must lie between 1 and the number of distinct vectors in base_weights, 20"),
        ({"components": 0}, "components must lie between"),
        ({"covariance": "tied"}, "covariance must be one of"),
        ({"groups": ["a"] * 19}, "groups must have one label per base class, 20 of them"),
        ({"groups": ["a"] * 19 + ["b"]}, r"groups: the 1 base class\(es\) of group 'b' have zero variance"),
        ({"regularisation": 0.0}, "regularisation must be"),
        ({"regularisation": np.nan}, "regularisation must be"),
        ({"lambda0": 1.0}, "lambda0: EM takes no such argument"),
        ({"groups": ["a", "b"] * 10, "regularisation": 5.0}, "regularisation: groups are fitted without EM"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, named: str, base_weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match=named):
        MixturePrior.fit(base_weights, **options)


def test_impossible_parameters_are_refused() -> None:
    one, two = ScaledIdentity(1.0, 1), ScaledIdentity(1.0, 2)
    for arguments in (
        ([0.5, 0.6], [[0.0], [1.0]], (one, one)),
        ([1.0, 0.0], [[0.0], [1.0]], (one, one)),
        ([0.5, 0.5], [[0.0], [1.0]], (one,)),
        ([0.5, 0.5], [[0.0], [1.0]], (one, two)),
        ([0.5, 0.5], [[0.0], [1.0]], (one, Diagonal([1.0]))),
        ([], np.empty((0, 1)), ()),
        ([0.5, 0.5], [[0.0], [np.nan]], (one, one)),
    ):
        with pytest.raises(UserError):
            MixturePrior(*arguments)
