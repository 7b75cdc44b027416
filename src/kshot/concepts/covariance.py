"""A covariance as an operator: a scaled identity, a diagonal, or a Cholesky factor; only the last is a p×p matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError

__all__ = ["Array", "Cholesky", "Covariance", "CovarianceKind", "Diagonal", "Floats", "ScaledIdentity", "read_only"]

Floats: TypeAlias = NDArray[np.float64]
Array: TypeAlias = Any  # NumPy's or JAX's array: whatever has __array_namespace__
CovarianceKind: TypeAlias = Literal["iso", "diag", "full"]

_ASYMMETRY = 1e-6  # of correlations, that rounding may leave in a matrix computed in float32


def read_only(values: ArrayLike) -> Floats:
    """Copy `values` to a float64 array that cannot be written to: priors are shared, so nobody may change one."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


class Covariance(ABC):
    """A symmetric positive definite Σ = L Lᵀ that acts on row vectors.

    Arguments have shape (..., dim) and may be NumPy or JAX arrays; the answer is of the same kind.
    `logdet` is the logarithm of |Σ|.
    """

    kind: CovarianceKind
    dim: int
    logdet: float

    @abstractmethod
    def matmul(self, X: Array) -> Array:
        """Give X Σ, (..., dim)."""

    @abstractmethod
    def factor_matmul(self, X: Array) -> Array:
        """Give X L, (..., dim), so that the kernel X Σ Xᵀ is (X L)(X L)ᵀ."""

    @abstractmethod
    def factor_t_matmul(self, Z: Array) -> Array:
        """Give Z Lᵀ, (..., dim): rows of white noise become rows of N(0, Σ)."""

    @abstractmethod
    def solve(self, D: Array) -> Array:
        """Give D Σ⁻¹, (..., dim)."""

    @abstractmethod
    def mahalanobis(self, D: Array) -> Array:
        """Give the squared length d Σ⁻¹ dᵀ of each row, (...)."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """Give the variances of the coordinates, (dim,)."""

    @abstractmethod
    def scaled(self, s: float) -> Covariance:
        """Give s Σ, for s > 0."""

    @abstractmethod
    def parameters(self) -> dict[str, Floats]:
        """Give the numbers that define Σ: `variance` (), `variances` (dim,) or `factor` (dim, dim)."""

    def dense(self) -> Floats:
        """Give Σ as a matrix, (dim, dim); for tests and plots only."""
        return np.asarray(self.matmul(np.eye(self.dim)))

    @staticmethod
    def from_parameters(parameters: Mapping[str, NDArray[Any]], *, dim: int) -> Covariance:
        """Rebuild the covariance that gave these `parameters`."""
        if "variance" in parameters:
            return ScaledIdentity(parameters["variance"].item(), dim)
        if "variances" in parameters:
            return Diagonal(parameters["variances"])
        return Cholesky(parameters["factor"])


class _Elementwise(Covariance):
    """What a scaled identity and a diagonal share: `_v` broadcasts over coordinates, and is never a Python float.

    (A Python float would leave float32 features float32; NumPy's float64 makes float64 kernels of them.)
    """

    _v: Any

    def matmul(self, X: Array) -> Array:
        return X * self._v

    def factor_matmul(self, X: Array) -> Array:
        return X * np.sqrt(self._v)

    def factor_t_matmul(self, Z: Array) -> Array:
        return Z * np.sqrt(self._v)

    def solve(self, D: Array) -> Array:
        return D / self._v

    def mahalanobis(self, D: Array) -> Array:
        return (D * (D / self._v)).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class ScaledIdentity(_Elementwise):
    """Σ = σ² I.

    >>> ScaledIdentity(4.0, dim=2).mahalanobis(np.array([[2.0, 0.0], [2.0, 2.0]]))
    array([1., 2.])
    """

    variance: float
    dim: int
    kind = "iso"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise UserError(f"variance must be a positive number, and it is {self.variance}")
        if self.dim < 1:
            raise UserError(f"dim must be at least 1, and it is {self.dim}")
        object.__setattr__(self, "variance", float(self.variance))
        object.__setattr__(self, "_v", np.float64(self.variance))
        object.__setattr__(self, "logdet", self.dim * float(np.log(self.variance)))

    def diagonal(self) -> Floats:
        """Give σ² for each coordinate, (dim,)."""
        return np.full(self.dim, self.variance)

    def scaled(self, s: float) -> ScaledIdentity:
        """Give s σ² I."""
        return ScaledIdentity(self.variance * s, self.dim)

    def parameters(self) -> dict[str, Floats]:
        """Give `variance`, ()."""
        return {"variance": np.asarray(self.variance)}


@dataclass(frozen=True, eq=False)
class Diagonal(_Elementwise):
    """Σ = diag(σ₁², ..., σ²_dim).

    >>> Diagonal(np.array([4.0, 1.0])).solve(np.array([2.0, 2.0]))
    array([0.5, 2. ])
    """

    variances: Floats
    kind = "diag"

    def __post_init__(self) -> None:
        variances = read_only(self.variances)
        if variances.ndim != 1 or not variances.size:
            raise UserError(f"variances must be a vector, and its shape is {variances.shape}")
        if not (np.isfinite(variances).all() and (variances > 0).all()):
            raise UserError(f"variances must be positive numbers, and the smallest is {variances.min()}")
        object.__setattr__(self, "variances", variances)
        object.__setattr__(self, "_v", variances)
        object.__setattr__(self, "dim", variances.size)
        object.__setattr__(self, "logdet", float(np.log(variances).sum()))

    def diagonal(self) -> Floats:
        """Give the variances, (dim,)."""
        return self.variances

    def scaled(self, s: float) -> Diagonal:
        """Give diag(s σ²)."""
        return Diagonal(self.variances * s)

    def parameters(self) -> dict[str, Floats]:
        """Give `variances`, (dim,)."""
        return {"variances": self.variances}


@dataclass(frozen=True, eq=False)
class Cholesky(Covariance):
    """Σ = L Lᵀ with a lower triangular L of positive diagonal.

    >>> Cholesky.from_dense([[4.0, 2.0], [2.0, 2.0]]).factor
    array([[2., 0.],
           [1., 1.]])
    """

    factor: Floats
    kind = "full"

    def __post_init__(self) -> None:
        factor = read_only(self.factor)
        if factor.ndim != 2 or factor.shape[0] != factor.shape[1] or not factor.size:
            raise UserError(f"factor must be a square matrix, and its shape is {factor.shape}")
        if not np.isfinite(factor).all() or np.triu(factor, 1).any() or not (np.diag(factor) > 0).all():
            raise UserError("factor must be lower triangular and finite, with a positive diagonal")
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "dim", factor.shape[0])
        object.__setattr__(self, "logdet", float(2.0 * np.log(np.diag(factor)).sum()))

    @classmethod
    def from_dense(cls, matrix: ArrayLike) -> Cholesky:
        """Factorise a symmetric positive definite matrix, (dim, dim)."""
        dense = np.asarray(matrix, dtype=np.float64)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise UserError(f"the covariance must be a square matrix, and its shape is {dense.shape}")
        # LAPACK reads the lower triangle only. |Σ_ij| is at most σ_i σ_j, and so is what rounding makes of it.
        deviations = np.sqrt(np.abs(np.diag(dense)))
        if not (np.abs(dense - dense.T) <= _ASYMMETRY * np.outer(deviations, deviations)).all():
            raise UserError("the covariance must be finite and symmetric: (matrix + matrix.T) / 2 is, if that is meant")
        try:
            return cls(np.asarray(np.linalg.cholesky(dense), dtype=np.float64))
        except np.linalg.LinAlgError:
            raise UserError("the covariance is not positive definite: give more vectors, or a larger lambda0") from None

    @cached_property
    def _inverse(self) -> Floats:
        from scipy.linalg import solve_triangular

        return read_only(solve_triangular(self.factor, np.eye(self.dim), lower=True, check_finite=False))

    def matmul(self, X: Array) -> Array:
        """Give X L Lᵀ."""
        return (X @ self.factor) @ self.factor.T

    def factor_matmul(self, X: Array) -> Array:
        """Give X L."""
        return X @ self.factor

    def factor_t_matmul(self, Z: Array) -> Array:
        """Give Z Lᵀ."""
        return Z @ self.factor.T

    def solve(self, D: Array) -> Array:
        """Give D L⁻ᵀ L⁻¹."""
        if not isinstance(D, np.ndarray):
            return (
                D @ self._inverse.T
            ) @ self._inverse  # concepts never import JAX: its triangular solve is out of reach
        from scipy.linalg import cho_solve

        rows = D.reshape(-1, self.dim)
        return cho_solve((self.factor, True), rows.T, check_finite=False).T.reshape(D.shape)

    def mahalanobis(self, D: Array) -> Array:
        """Give |d L⁻ᵀ|²."""
        if not isinstance(D, np.ndarray):
            return ((D @ self._inverse.T) ** 2).sum(axis=-1)
        from scipy.linalg import solve_triangular

        rows = D.reshape(-1, self.dim)
        white = solve_triangular(self.factor, rows.T, lower=True, check_finite=False)
        return (white * white).sum(axis=0).reshape(D.shape[:-1])

    def diagonal(self) -> Floats:
        """Give the squared lengths of the rows of L, (dim,)."""
        return np.asarray((self.factor * self.factor).sum(axis=1))

    def scaled(self, s: float) -> Cholesky:
        """Give (√s L)(√s L)ᵀ."""
        return Cholesky(self.factor * np.sqrt(s))

    def parameters(self) -> dict[str, Floats]:
        """Give `factor`, (dim, dim)."""
        return {"factor": self.factor}
