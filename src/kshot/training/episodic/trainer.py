"""Train an episodic method on the base classes: each step is a k-shot task, through the same run as batch training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn import functional

from kshot.datasets.imageset import ImageSet
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.errors import UserError
from kshot.training.checkpoint import Trained
from kshot.training.episodic.base import EpisodicMethod
from kshot.training.episodic.episodes import Episode, Episodes
from kshot.training.episodic.methods import build_method
from kshot.training.episodic.predict import predict
from kshot.training.episodic.recipe import EpisodicRecipe
from kshot.training.processes import launch
from kshot.training.run import Report, Run, Say, run_epochs

__all__ = ["train_episodic"]

TEST_WAYS, TEST_QUERIES = 5, 15


def train_episodic(
    data: ImageSet,
    recipe: EpisodicRecipe,
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
) -> Trained[EpisodicMethod]:
    """Train `recipe.method` by episodes from `data` and keep checkpoint, log and curves in the folder `out`.

    Args:
        data: the base classes' training images.
        recipe: how to train.
        out: folder for `checkpoint.pt`, `log.csv`, `curves.png`, `recipe.json`.
        test: other images, of the same or of left-out base classes; on 5-way tasks from them each epoch is measured.
        seed: decides the initial weights, the episodes and the changes of images.
        device: "auto", "cpu", "cuda", "mps".
        devices: processes to start, one per device. Under `torchrun` its own settings are taken.
        precision: "auto", "bf16" or "float32"; a resumed run keeps what "auto" chose.
        start: folder of another run on the same classes, to begin with its weights instead of random ones.
        resume: go on from the checkpoint in `out`, if there is one.
        stop_after: stop after that many epochs in all, with the schedule of the full plan; resume later.
        report: told after every step.
        say: given a line per epoch.

    """
    if recipe.ways > len(data.names):
        raise UserError(f"there are {len(data.names)} base classes, too few for episodes of {recipe.ways} ways")
    fabric, chosen = launch(device, devices, precision, resumed=out if resume else None)
    run = _Run(fabric, data, recipe, out=out, test=test, seed=seed, precision=chosen)
    run_epochs(run, start=start, resume=resume, stop_after=stop_after, report=report, say=say)
    return run.trained()


class _Run(Run[EpisodicRecipe, EpisodicMethod]):
    """A run on episodes with the loss −log p(y | query, support), averaged over queries."""

    def __init__(
        self,
        fabric: Fabric,
        data: ImageSet,
        recipe: EpisodicRecipe,
        *,
        test: ImageSet | None,
        seed: int,
        **options: Any,
    ) -> None:
        torch.manual_seed(seed)
        network = build_method(recipe.to_json()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
        super().__init__(fabric, data, recipe, network=network, optimiser=optimiser, seed=seed, **options)
        self.episodes = Episodes(
            data,
            recipe=recipe,
            normalisation=self.normalisation,
            seed=seed,
            rank=fabric.global_rank,
            world=fabric.world_size,
        )
        self.test = test
        self.test_tasks = None if test is None else _test_tasks(test, recipe)

    @property
    def size(self) -> int:
        return self.recipe.size

    @property
    def images_per_step(self) -> int:
        return self.recipe.batch * self.recipe.ways * (self.recipe.shots + self.recipe.queries)

    def steps(self, epoch: int) -> tuple[int, Iterator[list[Episode]]]:
        return len(self.episodes), self.episodes.epoch(epoch)

    def backward(self, batch: list[Episode]) -> tuple[Tensor, Tensor]:
        """Average loss and gradients over the step's episodes; clip the gradients."""
        recipe, sums = self.recipe, torch.zeros(2)
        for number, episode in enumerate(batch):
            support, query = self.fabric.to_device(episode)
            labels = torch.arange(recipe.ways, device=query.device).repeat_interleave(recipe.queries)
            with self.fabric.no_backward_sync(self.model, enabled=number < len(batch) - 1):
                log_proba = self.model(support, query, ways=recipe.ways)
                loss = functional.nll_loss(log_proba, labels) / len(batch)
                self.fabric.backward(loss)
            right = (log_proba.argmax(dim=1) == labels).float().mean() / len(batch)
            sums += torch.stack([loss.detach(), right]).cpu()
        if recipe.clip:
            self.fabric.clip_gradients(self.model, self.optimiser, max_norm=recipe.clip)
        return sums[0], sums[1]

    def measure(self) -> dict[str, float]:
        """Give loss and accuracy on the test tasks, with the raw and the averaged weights."""
        if self.test is None or self.test_tasks is None:
            return {}
        figures: dict[str, float] = {}
        labels, options = self.test_tasks.query_labels, {"normalisation": self.normalisation, "size": self.size}
        for suffix, method in (("", self.network), ("_averaged", self.averaged)):
            if method is not None:
                bare = method if isinstance(method, EpisodicMethod) else method.module
                proba = predict(bare, self.test.images, self.test_tasks, **options)  # type: ignore[arg-type]
                loss = -np.log(np.maximum(np.take_along_axis(proba, labels[..., None], axis=2), 1e-300)).mean()
                accuracy = (proba.argmax(axis=2) == labels).mean()
                figures |= {f"test_loss{suffix}": float(loss), f"test_accuracy{suffix}": float(accuracy)}
        return figures


def _test_tasks(test: ImageSet, recipe: EpisodicRecipe) -> Tasks | None:
    """Draw the tasks that every epoch is measured on, whatever the seed of the run; None where images are too few."""
    ways = recipe.ways if recipe.method == "meta-lstm" else min(TEST_WAYS, len(test.names))
    queries = min(TEST_QUERIES, int(np.bincount(test.labels).min()) - recipe.shots)
    if queries < 1 or len(test.names) < ways:
        return None
    return draw_tasks(test.labels, ways=ways, shots=recipe.shots, queries=queries, tasks=recipe.test_tasks, seed=0)
