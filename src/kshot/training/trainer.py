"""Phase 1: train a network on the base classes by batches, on one CPU, several GPUs or machines (Lightning Fabric)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError
from kshot.training.backbone_file import read_backbone
from kshot.training.batches import Batch, Batches, Normalisation, resized
from kshot.training.checkpoint import CHECKPOINT, Trained
from kshot.training.distillation import lesson, logits_of
from kshot.training.networks import Network, build
from kshot.training.processes import launch
from kshot.training.recipe import Recipe
from kshot.training.rotation import TwoHeads
from kshot.training.run import Report, Run, Say, run_epochs
from kshot.training.unfold import unfolded

__all__ = ["evaluate", "train"]


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
    start: Path | None = None,
    resume: bool = False,
    stop_after: int | None = None,
    report: Report | None = None,
    say: Say = lambda line: None,
) -> Trained[Network]:
    """Train `recipe.network` on `data` and keep checkpoint, log and curves in the folder `out`.

    Args:
        data: the base classes' training images.
        recipe: how to train.
        out: folder for `checkpoint.pt`, `log.csv`, `curves.png`, `recipe.json`.
        test: images of the same classes, on which loss and accuracy are measured after every epoch.
        seed: decides the initial weights, the order, the changes and the dropout.
        device: "auto", "cpu", "cuda", "mps".
        devices: processes to start, one per device. Under `torchrun` its own settings are taken.
        precision: "auto", "bf16" or "float32"; a resumed run keeps what "auto" chose.
        start: folder of another run on the same classes, or backbone file of such a network, to begin with its weights
            instead of random ones.
        resume: go on from the checkpoint in `out`, if there is one.
        stop_after: stop after that many epochs in all, with the schedule of the full plan; resume later.
        report: told after every step.
        say: given a line per epoch.

    """
    if test is not None and test.names != data.names:
        raise UserError("the test images must have the training images' classes, in the same order")
    if recipe.distillation is not None and start is None and not (resume and (out / CHECKPOINT).is_file()):
        raise UserError("this recipe learns from the network that it starts from: say which by --start")
    grows = any(phase.depth < 1 for phase in recipe.phases)
    fabric, chosen = launch(device, devices, precision, resumed=out if resume else None, grows=grows)
    run = _Run(fabric, data, recipe, out=out, test=test, seed=seed, precision=chosen)
    run_epochs(run, start=start, resume=resume, stop_after=stop_after, report=report, say=say)
    return run.trained()


class _Run(Run[Recipe, Network]):
    """A run on shuffled batches with the softmax loss over all base classes."""

    def __init__(
        self, fabric: Fabric, data: ImageSet, recipe: Recipe, *, test: ImageSet | None, seed: int, **options: Any
    ) -> None:
        torch.manual_seed(seed)
        network = build(recipe.network, len(data.names)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.two_heads = None if recipe.rotation is None else TwoHeads(network)
        optimiser = _optimiser(network, recipe)
        if self.two_heads is not None:
            optimiser.add_param_group({"params": list(self.two_heads.angles.parameters()), "weight_decay": 0.0})
        options |= {"network": network, "model": self.two_heads, "optimiser": optimiser}
        super().__init__(fabric, data, recipe, seed=seed, **options)
        self.test, self.phase = test, recipe.phases[0]
        self.batches: Batches | None = None
        self.taught: Tensor | None = None  # the teacher's logits of each image (n, C̃)

    def start(self, folder: Path) -> None:
        """Begin with what another run on the same classes learned: its folder, or the backbone file it gave."""
        if folder.is_file():
            self._start_from_file(folder)
        else:
            super().start(folder)
        if self.recipe.distillation is not None:
            images = resized(self.data.images, self.recipe.phases[-1].whole)
            self.taught = lesson(self.fabric, self.network, images, self.normalisation)

    def _start_from_file(self, folder: Path) -> None:
        content = read_backbone(folder)
        if content.base_names != self.data.names:
            raise UserError(f"{folder} was trained on other classes: start from a network of the same")
        made = content.provenance
        learned = made.get("last_images")
        unknown = learned is None and self.test is not None  # which matters only where images are kept aside
        if unknown or not set(learned or ()) <= set(self.data.ids):
            raise UserError(
                f"{folder} learned from other images than these, or does not say from which, so that some of the test "
                "images could be among them: start from a network of the same images, or of some of them"
            )
        network = unfolded(content, self.recipe.network, self.data, self.normalisation)
        self.network.load_state_dict(network.state_dict())
        own = {"recipe": made.get("recipe"), "seed": made.get("seed"), "epochs": made.get("epochs")}
        self.before = [*made.get("before", []), own]
        self.restart_average()

    @property
    def size(self) -> int:
        return self.phase.size

    @property
    def images_per_step(self) -> int:
        return self.recipe.batch

    def state(self) -> dict[str, Any]:
        angles = None if self.two_heads is None else self.two_heads.angles.state_dict()
        return super().state() | {"taught": self.taught, "angles": angles}

    def recall(self, state: dict[str, Any]) -> None:
        super().recall(state)
        self.taught = state.get("taught")
        if self.two_heads is not None:
            self.two_heads.angles.load_state_dict(state["angles"])

    def steps(self, epoch: int) -> tuple[int, Iterator[Batch]]:
        """Give the batches at the image size of the epoch, made anew only where the phase changes."""
        phase = self.recipe.phase_of(epoch)
        if self.batches is None or phase is not self.phase:
            self.phase = phase
            self.network.grow(phase.depth)
            if self.averaged is not None:
                cast(Network, self.averaged.module).grow(phase.depth)
            self.batches = Batches(
                self.data,
                size=phase.size,
                frame=phase.frame,
                batch=self.recipe.batch,
                augmentation=self.recipe.augmentation.scaled(phase.strength),
                rotation=self.recipe.rotation,
                normalisation=self.normalisation,
                seed=self.seed,
                rank=self.fabric.global_rank,
                world=self.fabric.world_size,
            )
        return len(self.batches), self.batches.epoch(epoch)

    def backward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        images, labels = self.fabric.to_device((batch.images, batch.labels))
        if self.recipe.rotation is None:
            logits = self.model(images)
            loss = self._loss(logits, labels, batch)
        else:
            logits, angles = self.model(images)
            turns = self.fabric.to_device(batch.turns)
            loss = self._loss(logits, labels, batch) + self.recipe.rotation.loss(angles, turns)
        self.fabric.backward(loss)
        return loss, (logits.argmax(dim=1) == labels).float().mean()

    def _loss(self, logits: Tensor, labels: Tensor, batch: Batch) -> Tensor:
        """Give the loss over the classes, by the labels and the teacher in their parts."""
        if self.recipe.distillation is None:
            return functional.cross_entropy(logits, labels)
        assert self.taught is not None  # by `start`, or the checkpoint
        return self.recipe.distillation(logits, labels, self.fabric.to_device(self.taught[batch.rows]))

    def measure(self) -> dict[str, float]:
        """Give loss and accuracy on the test images, with the raw and the averaged weights."""
        if self.test is None:
            return {}
        figures: dict[str, float] = {}
        for suffix, network in (("", self.network), ("_averaged", self.averaged)):
            if network is not None:
                loss, accuracy = evaluate(self.fabric, network, self.test, self.phase.whole, self.normalisation)
                figures |= {f"test_loss{suffix}": loss, f"test_accuracy{suffix}": accuracy}
        return figures


@torch.no_grad()
def evaluate(
    fabric: Fabric, network: nn.Module, data: ImageSet, size: int, normalisation: Normalisation
) -> tuple[float, float]:
    """Give mean loss and accuracy of a network on images of its classes, without any change of the images."""
    rest, total = torch.from_numpy(data.labels), torch.zeros(2, dtype=torch.float64)
    for logits in logits_of(fabric, network, resized(data.images, size), normalisation):
        labels, rest = fabric.to_device(rest[: len(logits)]), rest[len(logits) :]
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
    # Not `fused`: it fails where only some parameters have a momentum yet, as when a network has just grown.
    return torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=0.9, nesterov=True, foreach=True)
