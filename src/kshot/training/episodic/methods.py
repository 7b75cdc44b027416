"""The episodic methods by name: with freshly drawn weights, from a run, and to and from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kshot.errors import UserError
from kshot.training import checkpoint
from kshot.training.batches import Normalisation
from kshot.training.checkpoint import Trained
from kshot.training.episodic import METHODS, UNTRAINED
from kshot.training.episodic.base import EpisodicMethod, MetricMethod
from kshot.training.episodic.matching import MatchingNetwork, MatchingNetworkFCE
from kshot.training.episodic.meta_lstm import MetaLSTM
from kshot.training.episodic.model_file import EpisodicModel
from kshot.training.episodic.protonet import PrototypicalNetwork
from kshot.training.episodic.recipe import LEARNER
from kshot.training.episodic.untrained import Untrained
from kshot.training.networks import build

__all__ = ["build_method", "from_model", "restore_method", "to_model"]

_BY_METRIC: dict[str, type[MetricMethod]] = {
    "protonet": PrototypicalNetwork,
    "matching": MatchingNetwork,
    "matching-fce": MatchingNetworkFCE,
    **dict.fromkeys(UNTRAINED, Untrained),
}


def build_method(recipe: Mapping[str, Any]) -> EpisodicMethod:
    """Build the method of a recipe (as plain data), with freshly drawn weights."""
    name, network = recipe["method"], recipe["network"]
    if name == "meta-lstm":
        if network != LEARNER:
            raise UserError(f"the Meta-Learner LSTM adapts a network of its own, {LEARNER}, and not {network}")
        return MetaLSTM(recipe["ways"], size=recipe["size"])
    if name not in _BY_METRIC:
        raise UserError(f"there is no episodic method {name!r}: choose one of {', '.join(METHODS)}")
    return _BY_METRIC[name](build(network, 1).at(recipe["size"]))


def restore_method(folder: Path) -> Trained[EpisodicMethod]:
    """Read the result of an episodic run, finished or not, from the checkpoint in its folder."""
    return checkpoint.restored(folder, lambda recipe, _classes: build_method(recipe))


def to_model(trained: Trained[EpisodicMethod], *, weights: str, data: str, **provenance: Any) -> EpisodicModel:
    """Give the result of a run as a file holds it, with the averaged weights or the raw ones."""
    method = trained.averaged if weights == "averaged" and trained.averaged is not None else trained.network
    return EpisodicModel(
        recipe=trained.recipe,
        names=trained.names,
        mean=trained.normalisation.mean,
        std=trained.normalisation.std,
        weights={name: value.numpy() for name, value in method.state_dict().items()},
        data=data,
        provenance={**trained.provenance, "weights": weights, **provenance},
    )


def from_model(model: EpisodicModel) -> tuple[EpisodicMethod, Normalisation]:
    """Build the method that a file holds, ready to predict, and the normalisation of its images."""
    method = build_method(model.recipe)
    try:
        method.load_state_dict({name: torch.from_numpy(value) for name, value in model.weights.items()})
    except RuntimeError as error:
        raise UserError(f"the weights do not fit the method {model.recipe['method']}: {error}") from None
    return method.eval(), Normalisation(model.mean, model.std)
