"""Phase 2, concept learning: a density over class weights, fitted to the weights of the base classes.

One file per family, one protocol (`Prior`). Importing this package imports NumPy only.
"""

from __future__ import annotations

from kshot.concepts.background import Background
from kshot.concepts.base import ConceptPrior, Prior, load_prior
from kshot.concepts.calibrated import CalibratedPrior, Calibration, Temperature
from kshot.concepts.compare import compare_priors
from kshot.concepts.covariance import Cholesky, Covariance, Diagonal, ScaledIdentity
from kshot.concepts.gaussian import GaussianPrior
from kshot.concepts.laplace import LaplacePrior
from kshot.concepts.mixture import MixturePrior
from kshot.concepts.normalisation import Normalisation
from kshot.concepts.student_t import StudentTPrior

__all__ = [
    "Background",
    "CalibratedPrior",
    "Calibration",
    "Cholesky",
    "ConceptPrior",
    "Covariance",
    "Diagonal",
    "GaussianPrior",
    "LaplacePrior",
    "MixturePrior",
    "Normalisation",
    "Prior",
    "ScaledIdentity",
    "StudentTPrior",
    "Temperature",
    "compare_priors",
    "load_prior",
]
