"""Are the practitioner's probabilities right? EfficientNet-Lite0 on classes left out of every fit, beside its peers.

    kshot extract BASE -o base.safetensors     # images of base classes that the calibration was fitted on
    kshot extract NEW -o new.safetensors       # miniImageNet's 20 test classes
    kshot extract OTHER -o other.safetensors   # any other photographs: they play unrelated ones
    python scripts/check_photographs.py --base base.safetensors --new new.safetensors --other other.safetensors

Closed: k-shot tasks; scikit-learn's LogisticRegression as it comes, at the C that is best on tasks of base classes (for
features as they are and of length 1), class means with a fitted temperature, an RBF support vector machine. "Something
else": five classes learned by `kshot.photos`, their own queries against photographs of the other classes and of another
data set. The rows of all these classes are taken out of the network's last layer first.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import kshot
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.evaluation.logistic import Multinomial
from kshot.evaluation.runner import run, table
from kshot.photos.answers import answers
from kshot.photos.examples import Examples
from kshot.photos.fitting import Calibrations, backbone_prior, fit_model
from kshot.photos.model import BackboneRecord

CONSTANTS = np.logspace(-3, 6, 19)


@dataclass(frozen=True)
class UnitLength:
    """A method on features of length 1."""

    method: Multinomial

    @property
    def name(self) -> str:
        """How the table calls it."""
        return f"{self.method.name}, unit length"

    def __call__(self, features: kshot.Features, tasks: Tasks) -> Any:
        """Give the probabilities, (tasks, queries, ways)."""
        unit = features.X / np.linalg.norm(features.X, axis=1, keepdims=True)
        return self.method(kshot.Features(unit, features.y), tasks)


def best_constant(base: kshot.Features, wrap: Any) -> Any:
    """Give the method at the C of the highest log-likelihood on tasks of base classes, over 1, 5 and 10 shots."""
    methods = [wrap(Multinomial(float(C))) for C in CONSTANTS]
    scores = table(run(base, methods, tasks=100)).groupby("method", sort=False)["log_likelihood"].mean()
    return methods[int(scores.to_numpy().argmax())]


def closed(base: kshot.Features, new: kshot.Features, tasks: int) -> None:
    """Print the table of the closed setting."""
    methods = ["gauss-iso-calibrated", "gauss-iso-calibrated:laplace", "temperature", "nearest", "svm"]
    peers = [LogisticRegression(max_iter=1000), best_constant(base, lambda m: m), best_constant(base, UnitLength)]
    found = table(run(new, [*methods, *peers], tasks=tasks))
    found[["accuracy", "accuracy_ci95", "ece"]] *= 100
    print(found.iloc[:, :7].to_string(index=False, float_format=lambda value: f"{value:.3f}"))


def something_else(new: kshot.Features, other: kshot.Features | None, tasks: int) -> None:
    """Print how well unrelated photographs are told from those of the classes learned."""
    network = kshot.Backbone.load("efficientnet-lite0")
    assert network.base_weights is not None and network.base_bias is not None and network.base_ids is not None
    kept = np.array([name not in new.names for name in network.base_ids])
    beside: Any = SimpleNamespace(
        name="efficientnet-lite0", base_weights=network.base_weights[kept], base_bias=network.base_bias[kept]
    )
    calibrations = Calibrations(
        kshot.concepts.Calibration.bundled(network.name),
        kshot.concepts.Calibration.bundled(network.name, setting="joint"),
        "bundled",
    )
    prior = backbone_prior(beside, new.X)
    record = BackboneRecord(network.name, "", "")
    random = np.random.default_rng(0)
    for shots in (1, 5, 10):
        drawn = draw_tasks(new.y, shots=shots, tasks=tasks)
        sums: dict[str, list[float]] = {}
        for task in range(tasks):
            names = [new.names[label] for label in new.y[drawn.support[task]]]
            digests = [f"{row:05d}" for row in drawn.support[task]]
            examples = Examples.ordered(new.X[drawn.support[task]], names, digests, digests)
            model = fit_model(examples, beside, record, calibrations, prior=prior)
            truth = np.array([model.classes.index(new.names[label]) for label in new.y[drawn.query[task]]])
            known = model.probabilities(new.X[drawn.query[task]], beside)
            alone = model.probabilities(new.X[drawn.query[task]], beside, closed=True)
            sums.setdefault("closed accuracy", []).append((alone.classes.argmax(axis=1) == truth).mean())
            whole = np.column_stack([known.classes, known.other])
            sums.setdefault("joint accuracy", []).append((whole.argmax(axis=1) == truth).mean())
            strangers = {
                "other classes": new.X[random.choice(np.flatnonzero(~np.isin(new.y, drawn.classes[task])), 75)]
            }
            if other is not None:
                strangers["another data set"] = other.X[random.choice(len(other.X), 75)]
            told = _told(model, known)
            sums.setdefault("answered", []).append(told.mean())
            for kind, rows in strangers.items():
                found = model.probabilities(rows, beside)
                labels = np.repeat([0, 1], [len(known.other), len(rows)])
                area = roc_auc_score(labels, np.concatenate([known.other, found.other]))
                sums.setdefault(f"AUROC, {kind}", []).append(float(area))
                sums.setdefault(f"answered, {kind}", []).append(_told(model, found).mean())
        means = {name: float(np.mean(values)) for name, values in sums.items()}
        print(f"{shots} shots: " + "; ".join(f"{name} {value:.3f}" for name, value in means.items()))
        for kind in ("other classes", "another data set"):
            if f"answered, {kind}" in means:
                wrong = means[f"answered, {kind}"]
                print(f"  of the answers, {kind}: {100 * wrong / (wrong + means['answered']):.1f} %")


def _told(model: Any, found: Any) -> Any:
    """Say which photographs are answered with a class, as `kshot predict` does by default."""
    said = answers(found, model.classes, threshold=model.threshold, doubt=model.doubt)
    return np.array([answer.kind == "class" for answer in said])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--tasks", type=int, default=600)
    arguments = parser.parse_args()
    base, new = kshot.Features.load(arguments.base), kshot.Features.load(arguments.new)
    other = None if arguments.other is None else kshot.Features.load(arguments.other)
    something_else(new, other, min(arguments.tasks, 100))
    closed(base, new, arguments.tasks)


if __name__ == "__main__":
    main()
