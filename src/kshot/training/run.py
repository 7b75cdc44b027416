"""A training run between epochs, whatever it learns from: network, optimiser, running average, log and checkpoint.

What a step is made of (batches of images, or episodes) is left to the two kinds of run: `trainer` and
`episodic.trainer`. A run is a function of data, plan and seed: all that is random in an epoch comes from generators
seeded by (seed, epoch), so that a run that was broken off and resumed gives the same weights as one that was not.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError
from kshot.training import checkpoint
from kshot.training.batches import Normalisation
from kshot.training.checkpoint import Trained
from kshot.training.log import Log

__all__ = ["Plan", "Report", "Run", "Say", "run_epochs"]

Report = Callable[[int, int, int, float], None]
"""Called after each step with the epoch, the step, the steps of an epoch and the running loss."""

Say = Callable[[str], None]
"""Given a line per epoch."""


class Plan(Protocol):
    """What a run needs to know of its recipe."""

    @property
    def epochs(self) -> int:
        """Number of epochs."""

    @property
    def averaging(self) -> float:
        """Decay per step of the running average of the weights; 0 for none."""

    def progress(self, epoch: int, fraction: float) -> float:
        """Give the part of the whole computation that is done, in 0..1."""

    def rate(self, progress: float) -> float:
        """Give the learning rate at that progress."""

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as plain data."""


P = TypeVar("P", bound=Plan)
N = TypeVar("N", bound=nn.Module)


class Run(ABC, Generic[P, N]):
    """The state of a run.

    Args:
        fabric: launched already.
        data: the images it learns from.
        recipe: the plan.
        network: what is learned, with freshly drawn weights.
        model: what is trained, where that is more than the network: a module that holds it.
        optimiser: of its parameters.
        out: folder for `checkpoint.pt`, `log.csv`, `curves.png`, `recipe.json`.
        seed: decides all that is drawn.
        precision: Fabric's name of the arithmetic, for the record.

    """

    def __init__(
        self,
        fabric: Fabric,
        data: ImageSet,
        recipe: P,
        *,
        network: N,
        optimiser: torch.optim.Optimizer,
        out: Path,
        seed: int,
        precision: str,
        model: nn.Module | None = None,
    ) -> None:
        self.fabric, self.data, self.recipe, self.network = fabric, data, recipe, network
        self.out, self.seed, self.precision = out, seed, precision
        self.epoch = 0
        self.before: list[dict[str, Any]] = []  # the runs that this one started from, the first one first
        self.normalisation = Normalisation.of(data.images)
        self.model, self.optimiser = fabric.setup(network if model is None else model, optimiser)
        self.averaged: AveragedModel | None = None
        if recipe.averaging:
            average = get_ema_multi_avg_fn(recipe.averaging)  # type: ignore[no-untyped-call]
            self.averaged = AveragedModel(network, multi_avg_fn=average, use_buffers=True)
        out.mkdir(parents=True, exist_ok=True)
        self.log = Log(out / "log.csv")

    @abstractmethod
    def steps(self, epoch: int) -> tuple[int, Iterator[Any]]:
        """Give the number of steps of an epoch, and what each step learns from."""

    @abstractmethod
    def backward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Compute the loss of a step and its gradients; give loss and accuracy."""

    @abstractmethod
    def measure(self) -> dict[str, float]:
        """Give loss and accuracy on images that were not trained on: the test columns of the log."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Side of the images at present."""

    @property
    @abstractmethod
    def images_per_step(self) -> int:
        """Images of one step over all processes."""

    def one_epoch(self, epoch: int, report: Report | None) -> dict[str, float]:
        """Train one epoch and measure it: the row for the log."""
        torch.manual_seed(self.seed * 100_003 + epoch * 1009 + self.fabric.global_rank)  # dropout
        count, batches = self.steps(epoch)
        self.model.train()
        sums, rate, start = torch.zeros(2), 0.0, time.perf_counter()
        for step, batch in enumerate(batches):
            rate = self.recipe.rate(self.recipe.progress(epoch, (step + 1) / count))
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            sums += self._step(batch)
            if report is not None:
                report(epoch, step + 1, count, float(sums[0]) / (step + 1))
        loss, accuracy = self.fabric.all_reduce(sums / count, reduce_op="mean").tolist()
        seconds = time.perf_counter() - start
        self.epoch = epoch + 1
        row = {"epoch": epoch + 1, "size": self.size, "learning_rate": rate, "loss": loss, "accuracy": accuracy}
        row |= self.measure()
        return row | {"seconds": seconds, "images_per_second": count * self.images_per_step / seconds}

    def _step(self, batch: Any) -> Tensor:
        """Make one step; give its loss and accuracy (2,)."""
        self.optimiser.zero_grad()
        loss, accuracy = self.backward(batch)
        self.optimiser.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        return torch.stack([loss.detach(), accuracy]).cpu()

    def state(self) -> dict[str, Any]:
        """Give all that the run goes on from, for the checkpoint: tensors and plain data."""
        return {
            "network": self.network.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "normalisation": (self.normalisation.mean, self.normalisation.std),
            "recipe": json.dumps(self.recipe.to_json()),
            "names": list(self.data.names),
            "images": list(self.data.ids),
            "last_images": list(self.data.last_ids),
            "precision": self.precision,
            "seed": self.seed,
            "epoch": self.epoch,
            "before": json.dumps(self.before),
        }

    def recall(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        self.epoch = int(state["epoch"])
        self.before = checkpoint.before(state)

    def resume(self) -> None:
        """Go on where the checkpoint in `out` stopped."""
        path = self.out / checkpoint.CHECKPOINT
        state = checkpoint.read(self.out)
        if json.loads(state["recipe"]) != json.loads(json.dumps(self.recipe.to_json())) or state["seed"] != self.seed:
            raise UserError(f"{path} was made by another recipe or seed: give the same, or another folder to write to")
        if tuple(state["names"]) != self.data.names:
            raise UserError(f"{path} was trained on other classes: give the same data, or another folder to write to")
        if "images" in state and tuple(state["images"]) != self.data.ids:
            raise UserError(
                f"{path} was trained on other images of these classes: give the same data and number of images a "
                "class, or another folder to write to"
            )
        self.recall(state)
        self.log = Log(self.log.path, epochs=self.epoch)

    def start(self, folder: Path) -> None:
        """Begin with what the run in a folder learned on the same classes: its raw weights, no average's."""
        state = checkpoint.read(folder)
        if tuple(state["names"]) != self.data.names:
            raise UserError(f"the run in {folder} was trained on other classes: start from one on the same")
        if not set(state.get("images", ())) <= set(self.data.ids):
            raise UserError(
                f"the run in {folder} learned from images that are not among these, and so could not be kept aside: "
                "start from one on the same images, or on some of them"
            )
        self.before = checkpoint.lineage(state)
        try:
            self.network.load_state_dict(state["network"])
        except RuntimeError:
            raise UserError(f"the run in {folder} trained another network: start from one of the same") from None
        self.restart_average()

    def restart_average(self) -> None:
        """Let the running average begin with the weights that the network has now."""
        if self.averaged is not None:
            self.averaged.module.load_state_dict(self.network.state_dict())

    def trained(self) -> Trained[N]:
        """Give the result on the CPU, ready for export."""
        averaged = None if self.averaged is None else cast(N, self.averaged.module.cpu().eval())
        recipe = json.loads(json.dumps(self.recipe.to_json()))
        network: N = self.network.cpu().eval()
        made = (recipe, self.data.names, self.seed, self.epoch, self.before, self.data.last_ids)
        return Trained(network, averaged, self.normalisation, *made)


def run_epochs(
    run: Run[Any, Any],
    *,
    start: Path | None,
    resume: bool,
    stop_after: int | None,
    report: Report | None,
    say: Say,
) -> None:
    """Train epoch after epoch, with checkpoint, log and curves after each, up to the plan's end or `stop_after`."""
    if resume and (run.out / checkpoint.CHECKPOINT).is_file():  # and not `start`: the checkpoint went on from there
        run.resume()
    elif start is not None:
        run.start(start)
    if run.fabric.is_global_zero:  # not before: a run that is refused leaves the folder as it was
        (run.out / "recipe.json").write_text(json.dumps(run.recipe.to_json(), indent=2) + "\n")
    last = run.recipe.epochs if stop_after is None else min(stop_after, run.recipe.epochs)
    for epoch in range(run.epoch, last):
        row = run.one_epoch(epoch, report)
        if run.fabric.is_global_zero:
            checkpoint.write(run.out, run.state())
            run.log.add(row)
            run.log.draw(run.out / "curves.png")
            say(run.log.line())
        run.fabric.barrier()
