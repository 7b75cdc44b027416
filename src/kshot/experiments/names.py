"""What the methods are called in figures and tables: the paper's names, where it has one."""

from __future__ import annotations

import re

__all__ = ["label"]

_PRIORS = {
    "gauss-iso": "Gauss (iso)",
    "gauss-full": "Gauss (full, MAP prior)",
    "student-t": "Gauss (full, integr. prior)",
    "gmm-superclass": "GMM (supercl.)",
    "gmm-3-iso": "GMM (3, iso)",
    "gmm-3-diag": "GMM (3, diag)",
    "gmm-10-iso": "GMM (10, iso)",
    "gmm-10-diag": "GMM (10, diag)",
    "laplace-iso": "Laplace (iso)",
    "laplace-diag": "Laplace (diag)",
    "gauss-iso-calibrated": "Gauss (iso), calibrated",
}
_BASELINES = {
    "nearest": "Nearest neighbour",
    "class-mean": "Class mean",
    "temperature": "Class mean, temperature",
    "svm": "SVM (RBF)",
    "logreg-cv": "Log Reg (cross-val.)",
    "logreg-cv-logloss": "Log Reg (cross-val., log-loss)",
    "logreg-sigma2": "Log Reg (prior variance σ²)",
    "logreg-2sigma2": "Log Reg (sklearn's C = 2σ²)",
    "logreg-ovr": "Log Reg (one-vs-rest, 2σ²)",
    "logreg-ovr-free-intercept": "Log Reg (one-vs-rest, free intercept)",
    "logreg-mle": "Log Reg (max. likelihood)",
    "logreg-sigma2-only-new": "Log Reg (σ², only new)",
}
_EPISODIC = {
    "protonet": "Prototypical Network",
    "matching": "Matching Network",
    "matching-fce": "Matching Network, full context",
    "meta-lstm": "Meta-Learner LSTM",
    "nearest-untrained": "Nearest neighbour, untrained",
    "nearest-untrained-32": "Nearest neighbour, untrained (32)",
    "gauss-iso-conv4": "Gauss (iso), same network by batches",
    "gauss-iso-vgg": "Gauss (iso), deeper network",
}
_TRAINED = re.compile(r"(.+?)(?:-(\d+)shot)?")
_INFERENCE = {"nuts": "NUTS", "laplace": "Laplace approx.", "map": "MAP"}


def label(method: str, *, inference: bool = False) -> str:
    """Give a method's name for a reader; with `inference` a prior's MAP is named too.

    >>> label("gauss-full:nuts"), label("gauss-iso"), label("gauss-iso", inference=True)
    ('Gauss (full, MAP prior) NUTS', 'Gauss (iso)', 'Gauss (iso) MAP')
    >>> label("matching-fce-5shot")
    'Matching Network, full context (5-shot)'
    """
    trained = _TRAINED.fullmatch(method)
    if trained and trained[1] in _EPISODIC:
        return f"{_EPISODIC[trained[1]]}{f' ({trained[2]}-shot)' if trained[2] else ''}"
    family, _, by = method.partition(":")
    if family not in _PRIORS:
        return _BASELINES.get(method, method)
    if by or (inference and not family.endswith("-calibrated")):
        return f"{_PRIORS[family]} {_INFERENCE[by or 'map']}"
    return _PRIORS[family]
