"""The law of priors, for every family and kind of covariance: a density, its gradient, its samples, its file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

import kshot
from kshot.concepts import ConceptPrior, GaussianPrior, LaplacePrior, MixturePrior, Prior, StudentTPrior, load_prior
from kshot.errors import FileFormatError, UserError

Make = Callable[..., ConceptPrior]


def test_importing_the_priors_imports_numpy_only() -> None:
    script = "import sys, kshot.concepts; print({name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "numpy" in done.stdout
    for package in ("scipy", "sklearn", "pandas", "jax", "torch", "safetensors", "matplotlib"):
        assert f"'{package}'" not in done.stdout


def test_it_is_a_prior(any_prior: Make) -> None:
    prior = any_prior(3)
    assert isinstance(prior, Prior)
    assert isinstance(prior, ConceptPrior)
    assert prior.dim == 3
    assert prior.mean.shape == (3,)
    assert prior.is_gaussian == isinstance(prior, GaussianPrior)


def test_density_integrates_to_one_in_one_dimension(any_prior: Make) -> None:
    prior = any_prior(1)

    def density(w: float) -> float:
        return float(np.exp(prior.log_prob(np.array([[w]]))[0]))

    kink = float(prior.mean[0])
    total = quad(density, -np.inf, kink, epsabs=1e-12)[0] + quad(density, kink, np.inf, epsabs=1e-12)[0]
    assert total == pytest.approx(1, abs=1e-8)


def test_density_integrates_to_one_in_two_dimensions(any_prior: Make) -> None:
    prior = any_prior(2)
    # w = mean + 3 tan θ takes the plane to a square; Gauss-Legendre on either side of a kink.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angle = np.concatenate([(nodes - 1), (nodes + 1)]) * np.pi / 4
    weight = np.concatenate([weights, weights]) * np.pi / 4 * 3 / np.cos(angle) ** 2
    x, y = np.meshgrid(prior.mean[0] + 3 * np.tan(angle), prior.mean[1] + 3 * np.tan(angle))
    values = np.exp(prior.log_prob(np.stack([x, y], axis=-1)))
    assert weight @ values @ weight == pytest.approx(1, abs=1e-6)


def test_samples_have_the_densitys_mean(any_prior: Make) -> None:
    prior, n = any_prior(3), 40_000
    drawn = prior.sample(n, seed=1)
    assert drawn.shape == (n, 3)
    assert drawn.dtype == np.float64
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - prior.mean), 4.5 * drawn.std(axis=0) / np.sqrt(n))


def covariance_of(prior: ConceptPrior) -> np.ndarray:
    """Give the covariance in closed form, family by family."""
    if isinstance(prior, GaussianPrior):
        return prior.covariance.dense()
    if isinstance(prior, StudentTPrior):
        return prior.scale.dense() * prior.dof / (prior.dof - 2)
    if isinstance(prior, LaplacePrior):
        return np.diag(2 * prior.scale**2)
    assert isinstance(prior, MixturePrior)
    apart = prior.means - prior.mean
    inside = sum(pi * part.dense() for pi, part in zip(prior.proportions, prior.covariances, strict=True))
    return inside + (prior.proportions[:, None] * apart).T @ apart


def test_samples_have_the_densitys_covariance(any_prior: Make) -> None:
    prior, n = any_prior(3), 40_000
    drawn = prior.sample(n, seed=5)
    products = (drawn - prior.mean)[:, :, None] * (drawn - prior.mean)[:, None, :]
    error = products.std(axis=0) / np.sqrt(n)
    np.testing.assert_array_less(np.abs(products.mean(axis=0) - covariance_of(prior)), 4.5 * error)


def test_samples_have_the_densitys_quantiles(any_prior: Make) -> None:
    prior = any_prior(1)
    grid = prior.mean[0] + np.sinh(np.linspace(-9, 9, 40_001))
    density = np.exp(prior.log_prob(grid[:, None]))
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    drawn = prior.sample(20_000, seed=2)[:, 0]
    assert kstest(drawn, lambda w: np.interp(w, grid, cumulative)).pvalue > 1e-3


def test_seed_decides_the_samples(any_prior: Make) -> None:
    prior = any_prior(2)
    np.testing.assert_array_equal(prior.sample(5, seed=3), prior.sample(5, seed=3))
    assert not np.array_equal(prior.sample(5, seed=3), prior.sample(5, seed=4))
    random = np.random.default_rng(3)
    np.testing.assert_array_equal(prior.sample(5, seed=random), prior.sample(5, seed=3))
    assert not np.array_equal(prior.sample(5, seed=random), prior.sample(5, seed=3))


def test_gradient_agrees_with_finite_differences(any_prior: Make) -> None:
    prior = any_prior(3)
    weights, step = prior.sample(6, seed=1), 1e-5
    numerical = np.stack(
        [(prior.log_prob(weights + e) - prior.log_prob(weights - e)) / (2 * step) for e in step * np.eye(3)], axis=-1
    )
    np.testing.assert_allclose(prior.grad_log_prob(weights), numerical, rtol=1e-6, atol=1e-7)


@pytest.mark.sample
def test_jax_gives_the_same_density_and_its_derivative_is_the_gradient(any_prior: Make) -> None:
    jax = pytest.importorskip("jax")
    prior = any_prior(3)
    weights = prior.sample(6, seed=1)
    with jax.enable_x64(True):
        ours = jax.numpy.asarray(weights)
        density, gradient = prior.log_prob(ours), prior.grad_log_prob(ours)
        derivative = jax.jit(jax.grad(lambda w: prior.log_prob(w).sum()))(ours)
    assert isinstance(density, jax.Array)
    assert isinstance(gradient, jax.Array)
    np.testing.assert_allclose(np.asarray(density), prior.log_prob(weights), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(gradient), prior.grad_log_prob(weights), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.asarray(derivative), prior.grad_log_prob(weights), rtol=1e-10, atol=1e-12)


@pytest.mark.sample
def test_jax_in_single_precision_works_too(any_prior: Make) -> None:
    jax = pytest.importorskip("jax")
    prior = any_prior(3)
    weights = prior.sample(6, seed=1)
    density = prior.log_prob(jax.numpy.asarray(weights, dtype="float32"))
    assert density.dtype == np.float32
    np.testing.assert_allclose(np.asarray(density), prior.log_prob(weights), rtol=1e-4)


def test_far_away_the_density_stays_finite_and_points_home(any_prior: Make) -> None:
    prior = any_prior(2)
    for size in (1e2, 1e6, 1e100):
        weights = prior.mean + size * np.array([[1.0, 0.0], [-1.0, 1.0], [0.3, -0.7]])
        assert np.isfinite(prior.log_prob(weights)).all()
        gradient = prior.grad_log_prob(weights)
        assert np.isfinite(gradient).all()
        assert ((gradient * (weights - prior.mean)).sum(axis=1) < 0).all()


def test_any_leading_shape_lists_and_float32_are_taken(any_prior: Make) -> None:
    prior = any_prior(3)
    weights = prior.sample(6, seed=0)
    expected = prior.log_prob(weights)
    np.testing.assert_allclose(prior.log_prob(weights.reshape(2, 3, 3)), expected.reshape(2, 3), rtol=1e-14)
    np.testing.assert_allclose(prior.log_prob(weights[0]), expected[0], rtol=1e-14)
    np.testing.assert_allclose(prior.log_prob(weights.tolist()), expected, rtol=1e-14)
    assert prior.grad_log_prob(weights.reshape(2, 3, 3)).shape == (2, 3, 3)
    single = prior.log_prob(weights.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, rtol=1e-4)
    assert prior.log_prob(np.empty((0, 3))).shape == (0,)


def test_weights_of_another_width_are_refused(any_prior: Make) -> None:
    with pytest.raises(UserError, match="weights must have 3 columns"):
        any_prior(3).log_prob(np.zeros((2, 4)))


def test_scaling_stretches_about_the_mean(any_prior: Make) -> None:
    """The density of mean + √s (w − mean) is that of w, divided by the volume's growth s^(p/2)."""
    prior = any_prior(3)
    wide, weights = prior.scaled(4.0), prior.sample(5, seed=0)
    assert type(wide) is type(prior)
    stretched = prior.mean + 2 * (weights - prior.mean)
    np.testing.assert_allclose(wide.log_prob(stretched), prior.log_prob(weights) - 3 * np.log(2), rtol=1e-10)
    np.testing.assert_allclose(wide.mean, prior.mean, rtol=1e-12, atol=1e-14)
    for s in (0, -1, np.nan, np.inf):
        with pytest.raises(UserError, match="s must be"):
            prior.scaled(s)


def test_file_gives_the_same_prior_back(any_prior: Make, tmp_path: Path) -> None:
    prior = any_prior(3)
    prior.save(tmp_path / "prior.safetensors")
    again = load_prior(tmp_path / "prior.safetensors")
    assert type(again) is type(prior)
    assert repr(again) == repr(prior)
    weights = prior.sample(4, seed=0)
    np.testing.assert_array_equal(again.log_prob(weights), prior.log_prob(weights))
    for name, values in prior.parameters().items():
        np.testing.assert_array_equal(again.parameters()[name], values)
    assert type(type(prior).load(tmp_path / "prior.safetensors")) is type(prior)


def test_file_of_another_family_is_refused(tmp_path: Path) -> None:
    LaplacePrior([0.0], [1.0]).save(tmp_path / "prior")
    with pytest.raises(FileFormatError, match=r"holds a LaplacePrior, not a GaussianPrior: use kshot\.load_prior"):
        GaussianPrior.load(tmp_path / "prior")
    with pytest.raises(FileNotFoundError):
        load_prior(tmp_path / "missing")


def test_file_that_lacks_an_array_is_damaged(tmp_path: Path) -> None:
    kshot.files.write(
        tmp_path / "prior", {}, kind="prior", version=1, metadata={"family": "laplace", "has_bias": False}
    )
    with pytest.raises(FileFormatError, match="it lacks 'location'"):
        load_prior(tmp_path / "prior")
    kshot.files.write(tmp_path / "prior", {}, kind="prior", version=1, metadata={"family": "cauchy", "has_bias": False})
    with pytest.raises(FileFormatError, match="unknown family"):
        load_prior(tmp_path / "prior")


def test_priors_cannot_be_changed(any_prior: Make) -> None:
    prior = any_prior(2)
    with pytest.raises(AttributeError):
        prior.has_bias = True
    with pytest.raises(ValueError, match="read-only"):
        prior.mean[0] = 1.0


FITS: dict[str, Callable[..., ConceptPrior]] = {
    "gauss-iso": GaussianPrior.fit,
    "gauss-diag": lambda weights, **options: GaussianPrior.fit(weights, covariance="diag", **options),
    "gauss-full": lambda weights, **options: GaussianPrior.fit(weights, covariance="full", **options),
    "student-t": StudentTPrior.fit,
    "gmm-iso": MixturePrior.fit,
    "gmm-diag": lambda weights, **options: MixturePrior.fit(weights, covariance="diag", **options),
    "gmm-full": lambda weights, **options: MixturePrior.fit(weights, covariance="full", **options),
    "gmm-groups": lambda weights, **options: MixturePrior.fit(weights, groups=np.arange(len(weights)) % 2, **options),
    "laplace-iso": lambda weights, **options: LaplacePrior.fit(weights, scale="iso", **options),
    "laplace-diag": LaplacePrior.fit,
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())


@every_fit
def test_units_of_the_weights_do_not_matter(fit: Callable[..., ConceptPrior], base_weights: np.ndarray) -> None:
    """In units a thousand times smaller the density is the same but for the change of variables."""
    small, large = fit(base_weights), fit(1000 * base_weights)
    difference = small.log_prob(base_weights) - large.log_prob(1000 * base_weights)
    np.testing.assert_allclose(difference, 6 * np.log(1000), rtol=1e-9)


@every_fit
def test_bias_is_the_last_coordinate_and_its_units_do_not_matter(
    fit: Callable[..., ConceptPrior], base_weights: np.ndarray
) -> None:
    bias = np.random.default_rng(0).normal(3.0, 0.5, size=20)
    prior, rescaled = fit(base_weights, bias=bias), fit(base_weights, bias=1000 * bias)
    assert prior.has_bias
    assert prior.dim == 7
    assert prior.mean[-1] == pytest.approx(bias.mean(), abs=0.3)
    assert not fit(base_weights).has_bias
    vectors = np.column_stack([base_weights, bias])
    larger = np.column_stack([base_weights, 1000 * bias])
    np.testing.assert_allclose(prior.log_prob(vectors) - rescaled.log_prob(larger), np.log(1000), rtol=1e-8)
    # Its spread is the biases' own, whatever that of the weights is.
    assert prior.sample(4000, seed=0)[:, -1].std() == pytest.approx(0.5, rel=0.5)


@every_fit
def test_bias_is_kept_in_the_file(fit: Callable[..., ConceptPrior], base_weights: np.ndarray, tmp_path: Path) -> None:
    prior = fit(base_weights, bias=np.arange(20.0))
    prior.save(tmp_path / "prior")
    assert load_prior(tmp_path / "prior").has_bias
    assert prior.scaled(2.0).has_bias


@every_fit
def test_bad_base_weights_are_refused_by_name(fit: Callable[..., ConceptPrior], base_weights: np.ndarray) -> None:
    bad = base_weights.copy()
    bad[4, 2] = np.nan
    with pytest.raises(ValueError, match="base_weights holds a NaN or an infinity in row 4"):
        fit(bad)
    bad[4, 2] = -np.inf
    with pytest.raises(ValueError, match="base_weights holds a NaN or an infinity in row 4"):
        fit(bad)
    bad[:, 2] = 0.1
    with pytest.raises(ValueError, match=r"base_weights has zero variance in dimension 2 .* remove the feature"):
        fit(bad)
    with pytest.raises(ValueError, match="base_weights must hold at least two vectors"):
        fit(base_weights[:1])
    with pytest.raises(ValueError, match=r"base_weights must have 2 dimension\(s\)"):
        fit(base_weights[0])
    with pytest.raises(ValueError, match="base_weights must be an array of numbers"):
        fit([[1.0, 2.0], [3.0]])


@every_fit
def test_bad_bias_is_refused_by_name(fit: Callable[..., ConceptPrior], base_weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="bias must have one number per base class, 20 of them, and it has 19"):
        fit(base_weights, bias=np.arange(19.0))
    with pytest.raises(ValueError, match="bias holds a NaN"):
        fit(base_weights, bias=np.full(20, np.nan))
    with pytest.raises(ValueError, match="bias is the same for every base class"):
        fit(base_weights, bias=np.zeros(20))
