"""A covariance operator does what the dense matrix does, and holds no matrix that it does not need."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wishart

from kshot.concepts import Cholesky, Covariance, Diagonal, ScaledIdentity
from kshot.errors import UserError

RANDOM = np.random.default_rng(0)
VARIANCES = RANDOM.uniform(0.1, 3, size=5)
MATRIX = wishart(7, np.eye(5)).rvs(random_state=0)
OPERATORS = [
    (ScaledIdentity(0.7, 5), 0.7 * np.eye(5)),
    (Diagonal(VARIANCES), np.diag(VARIANCES)),
    (Cholesky.from_dense(MATRIX), MATRIX),
]


@pytest.mark.parametrize(("operator", "dense"), OPERATORS, ids=["iso", "diag", "full"])
class TestAgainstTheDenseMatrix:
    def test_products_and_solves_agree_for_any_leading_shape(self, operator: Covariance, dense: np.ndarray) -> None:
        for shape in ((5,), (4, 5), (2, 3, 5), (0, 5)):
            X = RANDOM.normal(size=shape)
            np.testing.assert_allclose(operator.matmul(X), X @ dense, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(operator.solve(X), X @ np.linalg.inv(dense), rtol=1e-10, atol=1e-13)
            squares = np.einsum("...i,ij,...j->...", X, np.linalg.inv(dense), X)
            np.testing.assert_allclose(operator.mahalanobis(X), squares, rtol=1e-10)

    def test_factor_gives_the_kernel_and_the_samples_covariance(self, operator: Covariance, dense: np.ndarray) -> None:
        X = RANDOM.normal(size=(4, 5))
        half = operator.factor_matmul(X)
        np.testing.assert_allclose(half @ half.T, X @ dense @ X.T, rtol=1e-12, atol=1e-14)
        white = operator.factor_t_matmul(np.eye(5))  # rows are Lᵀ, so that L Lᵀ is their Gram matrix
        np.testing.assert_allclose(white.T @ white, dense, rtol=1e-12, atol=1e-14)

    def test_determinant_diagonal_and_scaling_agree(self, operator: Covariance, dense: np.ndarray) -> None:
        assert operator.logdet == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-12)
        np.testing.assert_allclose(operator.diagonal(), np.diag(dense), rtol=1e-12)
        np.testing.assert_allclose(operator.scaled(3.0).dense(), 3 * dense, rtol=1e-12, atol=1e-14)
        assert type(operator.scaled(3.0)) is type(operator)

    def test_parameters_rebuild_it(self, operator: Covariance, dense: np.ndarray) -> None:
        again = Covariance.from_parameters(operator.parameters(), dim=5)
        assert type(again) is type(operator)
        np.testing.assert_array_equal(again.dense(), operator.dense())

    def test_float32_features_give_a_float64_kernel(self, operator: Covariance, dense: np.ndarray) -> None:
        X = RANDOM.normal(size=(4, 5)).astype(np.float32)
        assert (
            operator.matmul(X).dtype == operator.factor_matmul(X).dtype == operator.mahalanobis(X).dtype == np.float64
        )

    @pytest.mark.sample
    def test_jax_arrays_give_the_same_numbers(self, operator: Covariance, dense: np.ndarray) -> None:
        jax = pytest.importorskip("jax")
        X = RANDOM.normal(size=(2, 3, 5))
        with jax.enable_x64(True):
            for name in ("matmul", "factor_matmul", "factor_t_matmul", "solve", "mahalanobis"):
                ours = getattr(operator, name)(jax.numpy.asarray(X))
                assert isinstance(ours, jax.Array)
                np.testing.assert_allclose(np.asarray(ours), getattr(operator, name)(X), rtol=1e-10, atol=1e-13)


def test_iso_and_diag_hold_no_matrix() -> None:
    million = 1_000_000  # a dense one would be eight terabytes
    assert ScaledIdentity(2.0, million).mahalanobis(np.ones((1, million)))[0] == million / 2
    assert Diagonal(np.full(million, 2.0)).mahalanobis(np.ones((1, million)))[0] == million / 2


def test_operators_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        OPERATORS[1][0].diagonal()[0] = 1.0
    with pytest.raises(AttributeError):
        OPERATORS[0][0].variance = 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "build",
    [
        lambda: ScaledIdentity(0.0, 3),
        lambda: ScaledIdentity(float("nan"), 3),
        lambda: ScaledIdentity(1.0, 0),
        lambda: Diagonal([1.0, -1.0]),
        lambda: Diagonal([[1.0]]),
        lambda: Diagonal([np.inf]),
        lambda: Cholesky([[1.0, 2.0], [0.0, 1.0]]),
        lambda: Cholesky([[1.0, 0.0]]),
        lambda: Cholesky([[0.0]]),
        lambda: Cholesky.from_dense([[1.0, 2.0], [2.0, 1.0]]),
        lambda: Cholesky.from_dense([[1.0, 0.9], [0.0, 1.0]]),
        lambda: Cholesky.from_dense([[1.0, 0.0], [0.9, 1.0]]),
        lambda: Cholesky.from_dense([[1e6, 0.0, 0.0], [0.0, 1e-6, 9e-7], [0.0, 0.0, 1e-6]]),
        lambda: Cholesky.from_dense([[1.0, np.nan], [np.nan, 1.0]]),
        lambda: Cholesky.from_dense([[1.0, 0.0]]),
    ],
)
def test_what_is_no_covariance_is_refused(build) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError):
        build()


def test_a_matrix_that_rounding_made_asymmetric_is_a_covariance() -> None:
    rounded = MATRIX.astype(np.float32).astype(np.float64)
    rounded[0, 1] *= 1 + np.finfo(np.float32).eps
    np.testing.assert_allclose(Cholesky.from_dense(rounded).dense(), MATRIX, rtol=1e-5)
