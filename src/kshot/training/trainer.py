"""Phase 1: train a network on the base classes, on one CPU, several GPUs or several machines, through Lightning Fabric.

The run is a function of data, recipe and seed: the order of the images, their changes and the dropout of an epoch come
from generators seeded by (seed, epoch), so that a run that was broken off and resumed gives the same weights as one
that was not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError
from kshot.training import checkpoint
from kshot.training import precision as precisions
from kshot.training.batches import Batches, Normalisation, resized
from kshot.training.checkpoint import Trained
from kshot.training.log import Log
from kshot.training.networks import Network, build
from kshot.training.recipe import Recipe

__all__ = ["evaluate", "train"]

Report = Callable[[int, int, int, float], None]
"""Called after each step with the epoch, the step, the steps of an epoch and the running loss."""


def train(
    data: ImageSet,
    recipe: Recipe,
    *,
    out: Path,
    test: ImageSet | None = None,
    seed: int = 0,
    device: str = "auto",
    devices: int = 1,
    precision: str = "auto",
    resume: bool = False,
    stop_after: int | None = None,
    report: Report | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Train `recipe.network` on `data` and keep checkpoint, log and curves in the folder `out`.

    Args:
        data: the base classes' training images.
        recipe: how to train.
        out: folder for `checkpoint.pt`, `log.csv`, `curves.png`, `recipe.json`.
        test: images of the same classes, on which loss and accuracy are measured after every epoch.
        seed: decides the initial weights, the order, the changes and the dropout.
        device: "auto", "cpu", "cuda", "mps".
        devices: processes to start, one per device. Under `torchrun` its own settings are taken.
        precision: "auto", "bf16" or "float32".
        resume: go on from the checkpoint in `out`, if there is one.
        stop_after: stop after that many epochs in all, with the schedule of the full plan; resume later.
        report: told after every step.
        say: given a line per epoch.

    """
    if test is not None and test.names != data.names:
        raise UserError("the test images must have the training images' classes, in the same order")
    fabric = Fabric(accelerator=device, devices=devices, precision=precisions.choose(precision, device))
    fabric.launch()
    run = _Run(fabric, data, recipe, out=out, test=test, seed=seed)
    if resume:
        run.resume()
    last = recipe.epochs if stop_after is None else min(stop_after, recipe.epochs)
    for epoch in range(run.epoch, last):
        row = run.one_epoch(epoch, report)
        if fabric.is_global_zero:
            run.save()
            run.log.add(row)
            run.log.draw(out / "curves.png")
            say(run.log.line())
        fabric.barrier()
    return run.trained()


class _Run:
    """The state of a run between epochs."""

    def __init__(
        self, fabric: Fabric, data: ImageSet, recipe: Recipe, *, out: Path, test: ImageSet | None, seed: int
    ) -> None:
        self.fabric, self.data, self.recipe, self.out, self.test, self.seed = fabric, data, recipe, out, test, seed
        self.epoch, self.phase = 0, recipe.phases[0]
        self.batches: Batches | None = None
        self.normalisation = Normalisation.of(data.images)
        torch.manual_seed(seed)
        self.network = build(recipe.network, len(data.names)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model, self.optimiser = fabric.setup(self.network, _optimiser(self.network, recipe))
        self.averaged: AveragedModel | None = None
        if recipe.averaging:
            average = get_ema_multi_avg_fn(recipe.averaging)  # type: ignore[no-untyped-call]
            self.averaged = AveragedModel(self.network, multi_avg_fn=average, use_buffers=True)
        out.mkdir(parents=True, exist_ok=True)
        self.log = Log(out / "log.csv")
        if fabric.is_global_zero:
            (out / "recipe.json").write_text(json.dumps(recipe.to_json(), indent=2) + "\n")

    def one_epoch(self, epoch: int, report: Report | None) -> dict[str, float]:
        """Train one epoch and measure it: the row for the log."""
        torch.manual_seed(self.seed * 100_003 + epoch * 1009 + self.fabric.global_rank)  # dropout
        phase, batches = self.recipe.phase_of(epoch), self._batches(epoch)
        self.model.train()
        sums, rate, start = torch.zeros(2), 0.0, time.perf_counter()
        for step, (images, labels) in enumerate(batches.epoch(epoch)):
            rate = self.recipe.rate(self.recipe.progress(epoch, (step + 1) / len(batches)))
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            sums += self._step(*self.fabric.to_device((images, labels)))
            if report is not None:
                report(epoch, step + 1, len(batches), float(sums[0]) / (step + 1))
        loss, accuracy = self.fabric.all_reduce(sums / len(batches), reduce_op="mean").tolist()
        seconds = time.perf_counter() - start
        self.epoch = epoch + 1
        row = {"epoch": epoch + 1, "size": phase.size, "learning_rate": rate, "loss": loss, "accuracy": accuracy}
        row |= self._measure()
        return row | {"seconds": seconds, "images_per_second": len(batches) * self.recipe.batch / seconds}

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Make one step; give its loss and accuracy (2,)."""
        self.optimiser.zero_grad()
        logits = self.model(images)
        loss = functional.cross_entropy(logits, labels)
        self.fabric.backward(loss)
        self.optimiser.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        return torch.stack([loss.detach(), accuracy]).cpu()

    def _batches(self, epoch: int) -> Batches:
        """Give the batches at the image size of the epoch, made anew only where the phase changes."""
        phase = self.recipe.phase_of(epoch)
        if self.batches is None or phase is not self.phase:
            self.phase = phase
            self.batches = Batches(
                self.data,
                size=phase.size,
                batch=self.recipe.batch,
                augmentation=self.recipe.augmentation.scaled(phase.strength),
                normalisation=self.normalisation,
                seed=self.seed,
                rank=self.fabric.global_rank,
                world=self.fabric.world_size,
            )
        return self.batches

    def _measure(self) -> dict[str, float]:
        """Give loss and accuracy on the test images, with the raw and the averaged weights."""
        if self.test is None:
            return {}
        figures: dict[str, float] = {}
        for suffix, network in (("", self.network), ("_averaged", self.averaged)):
            if network is not None:
                loss, accuracy = evaluate(self.fabric, network, self.test, self.phase.size, self.normalisation)
                figures |= {f"test_loss{suffix}": loss, f"test_accuracy{suffix}": accuracy}
        return figures

    def save(self) -> None:
        """Write the checkpoint, atomically."""
        state = {
            "network": self.network.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "normalisation": (self.normalisation.mean, self.normalisation.std),
            "recipe": json.dumps(self.recipe.to_json()),
            "names": list(self.data.names),
            "seed": self.seed,
            "epoch": self.epoch,
        }
        checkpoint.write(self.out, state)

    def resume(self) -> None:
        """Go on where the checkpoint in `out` stopped; without one, begin at the beginning."""
        path = self.out / checkpoint.CHECKPOINT
        if not path.is_file():
            return
        state = checkpoint.read(self.out)
        if json.loads(state["recipe"]) != json.loads(json.dumps(self.recipe.to_json())) or state["seed"] != self.seed:
            raise UserError(f"{path} was made by another recipe or seed: give the same, or another folder to write to")
        if tuple(state["names"]) != self.data.names:
            raise UserError(f"{path} was trained on other classes: give the same data, or another folder to write to")
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        self.epoch = int(state["epoch"])
        self.log = Log(self.log.path, epochs=self.epoch)

    def trained(self) -> Trained:
        """Give the result on the CPU, ready for export."""
        averaged = None if self.averaged is None else cast(Network, self.averaged.module.cpu().eval())
        network = self.network.cpu().eval()
        recipe = json.loads(json.dumps(self.recipe.to_json()))
        return Trained(network, averaged, self.normalisation, recipe, self.data.names, self.seed, self.epoch)


@torch.no_grad()
def evaluate(
    fabric: Fabric, network: nn.Module, data: ImageSet, size: int, normalisation: Normalisation
) -> tuple[float, float]:
    """Give mean loss and accuracy of a network on images of its classes, without any change of the images."""
    network.eval()
    images, total = resized(data.images, size), torch.zeros(2, dtype=torch.float64)
    for start in range(0, len(data), 500):
        labels = fabric.to_device(torch.from_numpy(data.labels[start : start + 500]))
        with fabric.autocast():
            logits = network(fabric.to_device(normalisation(images[start : start + 500])))
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        total += torch.stack([loss, (logits.argmax(dim=1) == labels).sum()]).cpu()
    loss, accuracy = (total / len(data)).tolist()
    return loss, accuracy


def _optimiser(network: Network, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the optimiser, with weight decay on `network.regularised()` alone and the last layer's own where given.

    Adam's `weight_decay` is the gradient of ½λ‖W‖² added before the moments: the L2 term of the loss, as the paper
    has it, and not AdamW's decay.
    """
    decayed = {id(parameter) for parameter in network.regularised()} - {id(network.last.weight)}
    groups = [
        {"params": [p for p in network.parameters() if id(p) in decayed], "weight_decay": recipe.weight_decay},
        {
            "params": [network.last.weight],
            "weight_decay": recipe.weight_decay if recipe.last_decay is None else recipe.last_decay,
        },
        {
            "params": [p for p in network.parameters() if id(p) not in decayed and p is not network.last.weight],
            "weight_decay": 0.0,
        },
    ]
    if recipe.optimiser == "adam":
        return torch.optim.Adam(groups, lr=recipe.learning_rate, fused=True)
    return torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=0.9, nesterov=True, fused=True)
