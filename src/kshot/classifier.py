"""Phases 3 and 4 for one task, as a scikit-learn estimator."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kshot import files
from kshot.concepts import ConceptPrior, GaussianPrior, Prior, ScaledIdentity, load_prior
from kshot.errors import FileFormatError, UserError
from kshot.inference import InferenceMethod, InferenceSettings, Posterior, Tasks, infer, prepared
from kshot.inference.maximum import infer as _  # noqa: F401  (imported here, so that the first fit need not)
from kshot.inference.posterior import PointPosterior
from kshot.inference.support import Support, checked_queries, joined, labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KShotClassifier"]

Floats = NDArray[np.float64]

_KIND, _FORMAT = "classifier", 1
_CHUNK_BYTES = 64 * 2**20


class KShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn classes from a few examples with a prior over their weights, Eq. (2), and say how probable each is.

    Arguments:
        prior: the density of a class's weights, such as `GaussianPrior.fit(base_weights)`; None is N(0, I).
        inference: "map", the most probable weights; "laplace" or "nuts", averages over their posterior; or the settings
            of one of these. A calibrated prior's numbers are for one of them, `prior.calibration.inference`: give that.
        random_state: the seed of inference methods that draw; None or a `RandomState` gives one at the first fit, which
            the fitted model keeps, in its file too.
        base_weights, base_bias: the old classes' weights (B, p) and biases (B,): they stay fixed, in one softmax with
            the new classes (Section 4.1), and a single new class is enough.
        base_classes: the names of the old classes, (B,). Examples of an old class may be given too: they keep the new
            ones away.

    Attributes:
        classes_: the class names, the old ones first and in their order, the new ones sorted.
        coef_: (len(classes_), p), one row per class, also with two classes; for normalised features
            (`prior.prepared(X)`), if the prior was calibrated for such.
        intercept_: (len(classes_),); zero for the new classes of a prior without a bias.
        posterior_: what inference gave; `posterior_.info` says how it went.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Example:
        >>> X, y = [[2.0, 0.0], [0.0, 2.0]], ["cat", "dog"]
        >>> KShotClassifier().fit(X, y).predict_proba([[1.0, 0.5]]).round(3)
        array([[0.592, 0.408]])
    """

    def __init__(
        self,
        prior: Prior | None = None,
        inference: InferenceMethod | InferenceSettings = "map",
        random_state: int | np.random.RandomState | None = 0,
        base_weights: ArrayLike | None = None,
        base_bias: ArrayLike | None = None,
        base_classes: ArrayLike | None = None,
    ) -> None:
        self.prior = prior
        self.inference = inference
        self.random_state = random_state
        self.base_weights = base_weights
        self.base_bias = base_bias
        self.base_classes = base_classes

    def fit(self, X: ArrayLike | pd.DataFrame, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from support examples X, (n, p), and their labels y, (n,), of any kind."""
        support = Support.check(self, X, y, sample_weight, reset=True)
        return self._learn(support, np.unique(support.y))

    def partial_fit(
        self,
        X: ArrayLike | pd.DataFrame,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more examples: the same as `fit` on all so far, which are kept, in whatever order they came.

        `classes` names classes of which there may be no examples yet; they take part in the fit.
        """
        first = not self.__sklearn_is_fitted__()
        support = Support.check(self, X, y, sample_weight, reset=first)
        names = [support.y] if classes is None else [support.y, labels(classes, "classes")]
        if first:
            return self._learn(support, np.unique(joined(names)))
        whole = self._fitted.support.extended(support)
        return self._learn(whole, np.unique(joined([*names, self.classes_])), kept_seed=self._fitted.seed)

    @overload
    def predict_proba(self, X: ArrayLike | pd.DataFrame, *, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict_proba(self, X: ArrayLike | pd.DataFrame, *, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict_proba(self, X: ArrayLike | pd.DataFrame, *, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Give the probability of each class, (m, p) -> (m, len(classes_)).

        With `return_std` give also the standard deviation of each probability under the posterior: large where there is
        too little data, small where classes are alike. It works through X in pieces: a million rows of a memory-mapped
        file need little more memory than the answer.
        """
        queries = self._queries(X)
        if not return_std:
            return self._proba(queries)
        moments = getattr(self.posterior_, "predict_moments", None)
        if moments is None:
            raise UserError(
                'inference="map" is one set of weights and has no spread: use inference="laplace" or "nuts"'
            )
        mean, std = moments(prepared(self._fitted.prior, queries)[None])
        return mean[0], std[0]

    def predict_log_proba(self, X: ArrayLike | pd.DataFrame) -> Floats:
        """Give the logarithm of the probabilities, (m, len(classes_))."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: ArrayLike | pd.DataFrame) -> NDArray[Any]:
        """Give the most probable class of each row, (m,)."""
        queries = self._queries(X)
        best = np.empty(len(queries), dtype=np.intp)
        rows = max(1, _CHUNK_BYTES // (8 * len(self.classes_)))
        for start in range(0, len(queries), rows):
            best[start : start + rows] = self._proba(queries[start : start + rows]).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def save(self, path: str | Path) -> None:
        """Write the fitted model to `path` (safetensors): weights, prior and examples, so that it can learn on."""
        check_is_fitted(self)
        given = self._fitted
        if not isinstance(given.inference, str):
            raise UserError(
                "a model is saved with the name of its inference method: give inference by name, without settings"
            )
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "X": given.support.X}
        arrays["y"] = np.array([self.classes_.tolist().index(label) for label in given.support.y.tolist()])
        prior = None if given.prior is None else _to_bytes(given.prior)
        optional: dict[str, Any] = {"weight": given.support.weight, "prior": prior}
        optional |= {"base_weights": given.base_weights, "base_bias": given.base_bias}
        arrays |= {name: np.asarray(value) for name, value in optional.items() if value is not None}
        if isinstance(self.posterior_, PointPosterior):
            arrays |= {f"posterior_{name}": value for name, value in self.posterior_.arrays().items()}
        metadata = {
            "inference": given.inference,
            "random_state": given.seed,
            "classes": self.classes_.tolist(),
            "labels": str(self.classes_.dtype),
            "features": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        files.write(path, arrays, kind=_KIND, version=_FORMAT, metadata=metadata)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; nothing in the file is run."""
        arrays, header = files.read(path, kind=_KIND, version=_FORMAT)
        try:
            classes = np.array(header["classes"], dtype=header["labels"])
            old, old_bias = arrays.get("base_weights"), arrays.get("base_bias")
            prior = _from_bytes(arrays["prior"]) if "prior" in arrays else None
            names = None if old is None else classes[: len(old)]
            model = cls(prior, header["inference"], header["random_state"], old, old_bias, names)
            support = Support(arrays["X"], classes[arrays["y"]], arrays.get("weight"))
            model.n_features_in_ = support.X.shape[1]
            if header["features"]:
                model.feature_names_in_ = np.array(header["features"], dtype=object)
            point = {name.removeprefix("posterior_"): a for name, a in arrays.items() if name.startswith("posterior_")}
            if not point:  # averages over the posterior are computed again, from the same examples and seed
                return model._learn(support, classes if old is None else classes[len(old) :])
            fitted = _Fitted(support, prior, header["inference"], header["random_state"], old, old_bias)
            model._adopt(fitted, classes, PointPosterior.from_arrays(point, old, old_bias))
        except KeyError as missing:
            raise FileFormatError(f"{path} is damaged: it lacks {missing}") from None
        return model

    def __sklearn_is_fitted__(self) -> bool:
        # n_features_in_ is there before the examples are looked at: a fit that failed over them is none.
        return hasattr(self, "posterior_")

    def _learn(self, support: Support, names: NDArray[Any], *, kept_seed: int | None = None) -> Self:
        old = self._old_classes()
        new = names if old is None else np.setdiff1d(joined([names, old]), old)
        classes = new if old is None else joined([old, new])
        if old is not None and not new.size:
            raise UserError("y holds old classes only (base_classes): give examples of at least one new class")
        if old is None and new.size < 2:
            remedy = "give examples of a second class, name it in classes=, or give base_weights"
            raise UserError(f"y holds one class only ({new[0]}), and there is nothing to tell it from: {remedy}")
        codes = {label: code for code, label in enumerate(new.tolist())}
        tasks = Tasks.check(
            support.X[None],
            [[codes.get(label, -1) for label in support.y.tolist()]],
            ways=len(new),
            sample_weight=None if support.weight is None else support.weight[None],
            base_weights=self.base_weights,
            base_bias=self.base_bias,
        )
        prior = self.prior
        if prior is None:
            prior = GaussianPrior(np.zeros(self.n_features_in_), ScaledIdentity(1.0, dim=self.n_features_in_))
        seed = _seed(self.random_state, kept_seed)
        posterior = infer(prior, tasks, self.inference, random_state=seed)
        fitted = _Fitted(support, self.prior, self.inference, seed, tasks.base_weights, tasks.base_bias)
        self._adopt(fitted, classes, posterior)
        return self

    def _adopt(self, fitted: _Fitted, classes: NDArray[Any], posterior: Posterior) -> None:
        coef, intercept = posterior.weights[0], posterior.info.intercept[0]
        old, old_bias = fitted.base_weights, fitted.base_bias
        if old is not None:
            coef = np.concatenate([old, coef])
            intercept = np.concatenate([np.zeros(len(old)) if old_bias is None else old_bias, intercept])
        self._fitted, self.classes_, self.posterior_ = fitted, classes, posterior
        self.coef_, self.intercept_ = coef, intercept

    def _old_classes(self) -> NDArray[Any] | None:
        if self.base_weights is None:
            if self.base_classes is not None:
                raise UserError("base_classes was given without base_weights: give both, or neither")
            return None
        if self.base_classes is None:
            raise UserError("base_classes must name the rows of base_weights: give one name per old class")
        old = labels(self.base_classes, "base_classes")
        rows = len(np.asarray(self.base_weights))
        if old.shape != (rows,) or len(np.unique(old)) != rows:
            raise UserError(f"base_classes must have {rows} different names, one per row of base_weights")
        return old

    def _queries(self, X: ArrayLike | pd.DataFrame) -> NDArray[np.floating[Any]]:
        check_is_fitted(self)
        return checked_queries(self, X)

    def _proba(self, queries: NDArray[np.floating[Any]]) -> Floats:
        # In pieces, as features that the prior wants in another form are a copy.
        rows = max(1, _CHUNK_BYTES // (8 * queries.shape[1]))
        out = np.empty((len(queries), len(self.classes_)))
        for start in range(0, len(queries), rows):
            piece = prepared(self._fitted.prior, queries[start : start + rows])
            out[start : start + rows] = self.posterior_.predict_proba(piece[None])[0]
        return out


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What a fit was made of: `set_params` may change the estimator's parameters, and not what it has learned.

    Arguments:
        support: all examples so far.
        prior: None for N(0, I).
        inference: the method, or its settings.
        seed: of a method that draws.
        base_weights, base_bias: the old classes, (B, p) and (B,), or None.
    """

    support: Support
    prior: Prior | None
    inference: InferenceMethod | InferenceSettings
    seed: int
    base_weights: Floats | None
    base_bias: Floats | None


def _seed(random_state: Any, kept: int | None) -> int:
    """Give a whole number as it is; of None or a `RandomState` the number drawn before, or else draw one."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31)) if kept is None else kept


def _to_bytes(prior: Prior) -> NDArray[np.uint8]:
    """Give the prior's own file as bytes, to be kept inside the model's."""
    if not isinstance(prior, ConceptPrior):
        raise UserError(
            f"the prior, a {type(prior).__name__}, cannot be written to a file: only the library's own priors can"
        )
    with tempfile.TemporaryDirectory() as folder:
        prior.save(Path(folder) / "prior")
        return np.frombuffer((Path(folder) / "prior").read_bytes(), dtype=np.uint8)


def _from_bytes(content: NDArray[np.uint8]) -> Prior:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "prior").write_bytes(content.tobytes())
        return load_prior(Path(folder) / "prior")
