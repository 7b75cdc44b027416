"""Priors with the hyperparameters that explain held-out base weights best (Appendix E.4), as methods to run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior, LaplacePrior, MixturePrior, StudentTPrior
from kshot.datasets.tasks import Tasks
from kshot.experiments.superclasses import merged_superclasses
from kshot.features import Features
from kshot.files import atomic_path
from kshot.inference.settings import NUTS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ChosenPrior", "as_pairs", "hyperparameters", "sampling_log"]

_COLUMNS = ("mu0", "kappa0", "nu0", "lambda0", "regularisation", "shrinkage")


def hyperparameters(table: pd.DataFrame, method: str) -> dict[str, float]:
    """Give what `compare_priors` chose for a method, as arguments of its family's `fit`."""
    row = table[table["method"] == method].iloc[0].to_dict()
    return {name: float(row[name]) for name in _COLUMNS if not np.isnan(row.get(name, np.nan))}


@dataclass(frozen=True)
class ChosenPrior:
    """A family's prior with given hyperparameters, as a method: features and tasks -> probabilities.

    Args:
        name: as in the paper's Table 8, such as "gauss-full:nuts".
        family: "gauss-iso", "gmm-3-diag", "gmm-superclass", ...
        chosen: the hyperparameters, arguments of the family's `fit`.
        inference: "map" or settings of the sampler.
        seed: of the sampler.
        log: folder in which a sampler's diagnostics are kept.

    """

    name: str
    family: str
    chosen: tuple[tuple[str, float], ...]
    inference: Literal["map"] | NUTS = "map"
    seed: int = 0
    log: Path | None = field(default=None, repr=False)

    def prior(self, features: Features) -> Any:
        """Fit the prior to the base weights."""
        weights, bias, chosen = features.base_weights, features.base_bias, cast("dict[str, Any]", dict(self.chosen))
        assert weights is not None
        family, *rest = self.family.split("-")
        if self.family == "student-t":
            return StudentTPrior.fit(weights, bias=bias, **chosen)
        if family == "gauss":
            return GaussianPrior.fit(weights, covariance=rest[0], bias=bias, **chosen)  # type: ignore[arg-type]
        if family == "laplace":
            return LaplacePrior.fit(weights, scale=rest[0], bias=bias, **chosen)  # type: ignore[arg-type]
        if rest == ["superclass"]:
            return MixturePrior.fit(weights, groups=merged_superclasses(features), bias=bias, **chosen)
        return MixturePrior.fit(weights, components=int(rest[0]), covariance=rest[1], bias=bias, **chosen)  # type: ignore[arg-type]

    def __call__(self, features: Features, tasks: Tasks) -> NDArray[np.float64]:
        """Give the probabilities of the queries, (tasks, queries, ways)."""
        from kshot.inference import SamplingWarning, fit_tasks

        support, query = features.X[tasks.support], features.X[tasks.query]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # counted in the log instead
            _, info = fit_tasks(
                self.prior(features),
                support,
                tasks.support_labels,
                inference=self.inference,
                X_query=query,
                random_state=self.seed,
            )
        if self.log is not None and self.inference != "map":
            kept = {name: np.asarray(info.diagnostics[name]).tolist() for name in ("rhat", "ess", "divergences")}
            with atomic_path(sampling_log(self.log, self, tasks)) as temporary:
                temporary.write_text(json.dumps(kept))
        return np.asarray(info.proba)


def sampling_log(folder: Path, method: ChosenPrior, tasks: Tasks) -> Path:
    """Give the file of a sampler's diagnostics on these tasks."""
    digest = hashlib.sha256(repr(method).encode() + tasks.support.tobytes()).hexdigest()[:16]
    return folder / f"{method.name.replace(':', '-')}-{tasks.shots}-shot-{digest}.json"


def as_pairs(chosen: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Give hyperparameters in the form that a frozen method keeps."""
    return tuple(sorted(chosen.items()))
