"""What a training run leaves on disk, and the trained network read back from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import nn

from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import FileFormatError
from kshot.files import atomic_path
from kshot.training.batches import Normalisation
from kshot.training.export import export
from kshot.training.networks import Network, build

__all__ = [
    "CHECKPOINT",
    "Trained",
    "before",
    "export_trained",
    "lineage",
    "precision",
    "read",
    "restore",
    "restored",
    "write",
]

CHECKPOINT = "checkpoint.pt"
N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)
class Trained(Generic[N]):
    """A trained network: the raw weights, the averaged ones where the recipe asks for them, and what made them.

    `before` tells of the runs it started from (recipe, seed, epochs), the first one first; `last_images` of each class
    the last image that it learned from, in the order of the data set: those after it were kept aside.
    """

    network: N
    averaged: N | None
    normalisation: Normalisation
    recipe: dict[str, Any]
    names: tuple[str, ...]
    seed: int
    epoch: int
    before: list[dict[str, Any]] = field(default_factory=list)
    last_images: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Side of the whole images that it ended with, and is for."""
        last = self.recipe["phases"][-1]
        return int(last.get("frame", last["size"]))

    @property
    def provenance(self) -> dict[str, Any]:
        """What made it, for the header of its file."""
        made: dict[str, Any] = {"seed": self.seed, "epochs": self.epoch}
        if self.before:
            made["before"] = self.before
        if self.last_images:
            made["last_images"] = list(self.last_images)
        return made


def write(folder: Path, state: dict[str, Any]) -> None:
    """Write a run's state (tensors and plain data) as the checkpoint of its folder, atomically."""
    with atomic_path(folder / CHECKPOINT) as temporary:
        torch.save(state, temporary)


def read(folder: Path) -> dict[str, Any]:
    """Read the checkpoint of a folder: tensors and plain data only, whatever the file says."""
    path = folder / CHECKPOINT
    if not path.is_file():
        raise FileNotFoundError(f"there is no training run in {folder}: it has no {CHECKPOINT}")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        missing = {"network", "averaged", "optimiser", "normalisation", "recipe", "names", "seed", "epoch"} - set(state)
    except Exception as error:  # torch names a dozen kinds of damage
        raise FileFormatError(f"{path} is damaged, or no checkpoint of kshot ({type(error).__name__})") from None
    if missing:
        raise FileFormatError(f"{path} is no checkpoint of kshot: it lacks {', '.join(sorted(missing))}")
    return state


def precision(folder: Path) -> str | None:
    """Give Fabric's name of the precision that the run in a folder was made with; None where there is no such run."""
    return read(folder).get("precision") if (folder / CHECKPOINT).is_file() else None


def _averaged(state: dict[str, Any]) -> dict[str, Any] | None:
    """Give the averaged weights of a checkpoint's state under the network's own names; None where there are none."""
    if state["averaged"] is None:
        return None
    # torch's AveragedModel keeps the network as `module`, beside its own counter.
    own = {name: value for name, value in state["averaged"].items() if name.startswith("module.")}
    return {name.removeprefix("module."): value for name, value in own.items()}


def before(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the runs that a checkpoint's run started from, the first one first."""
    runs: list[dict[str, Any]] = json.loads(state.get("before", "[]"))
    return runs


def lineage(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the runs behind a checkpoint (recipe, seed, epochs), its own the last."""
    own = {"recipe": json.loads(state["recipe"]), "seed": state["seed"], "epochs": int(state["epoch"])}
    return [*before(state), own]


def restore(folder: Path) -> Trained[Network]:
    """Read the result of a run on batches, finished or not, from the checkpoint in its folder."""
    return restored(folder, lambda recipe, classes: build(recipe["network"], classes))


def restored(folder: Path, make: Callable[[dict[str, Any], int], N]) -> Trained[N]:
    """Read the result of a run from its folder, with `make` building the network of a recipe for so many classes."""
    state = read(folder)
    recipe = json.loads(state["recipe"])

    def network(weights: dict[str, Any]) -> N:
        built = make(recipe, len(state["names"]))
        built.load_state_dict(weights)
        return built.eval()

    average = _averaged(state)
    return Trained(
        network(state["network"]),
        None if average is None else network(average),
        Normalisation(*state["normalisation"]),
        recipe,
        tuple(state["names"]),
        state["seed"],
        state["epoch"],
        before(state),
        tuple(state.get("last_images", ())),
    )


def export_trained(
    trained: Trained[Network],
    path: Path,
    *,
    weights: str,
    source: str,
    storage: Literal["float16", "float32"] = "float32",
) -> None:
    """Write a run's result as a backbone file, with the averaged weights or the raw ones."""
    network = trained.averaged if weights == "averaged" and trained.averaged is not None else trained.network
    export(
        network,
        path,
        final="last",
        preprocessing=Preprocessing(crop=trained.size, mean=trained.normalisation.mean, std=trained.normalisation.std),
        name=trained.recipe["network"],
        base_names=trained.names,
        provenance={"data": source, "recipe": trained.recipe, **trained.provenance},
        storage=storage,
    )
