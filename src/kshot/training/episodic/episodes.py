"""Episodes for training: k-shot tasks drawn from the base classes, augmented and normalised."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kshot.datasets.imageset import ImageSet
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.errors import UserError
from kshot.training.batches import Normalisation, resized
from kshot.training.episodic.recipe import EpisodicRecipe

__all__ = ["Episode", "Episodes"]

Episode = tuple[Tensor, Tensor]
"""Support (ways · shots, 3, h, w) and query images (ways · queries, 3, h, w), class after class."""


class Episodes:
    """Draw the episodes of any epoch; epoch and seed alone decide them, for any number of processes.

    Args:
        data: the images of the base classes; no other class can come into an episode.
        recipe: ways, shots, queries and how many.
        normalisation: applied last.
        seed: decides classes, images and their changes, with the epoch's number.
        rank: which process this is.
        world: how many there are; each takes its share of every step's episodes.

    """

    def __init__(
        self,
        data: ImageSet,
        *,
        recipe: EpisodicRecipe,
        normalisation: Normalisation,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if recipe.batch % world:
            raise UserError(
                f"{recipe.batch} episodes a step cannot be shared equally by {world} processes: choose a multiple of it"
            )
        self.images, self.labels = resized(data.images, recipe.size), data.labels
        self.recipe, self.normalisation, self.seed = recipe, normalisation, seed
        self.share = slice(rank * recipe.batch // world, (rank + 1) * recipe.batch // world)

    def __len__(self) -> int:
        return self.recipe.episodes

    def tasks(self, number: int) -> Tasks:
        """Give the rows of all episodes of epoch `number`."""
        recipe = self.recipe
        return draw_tasks(
            self.labels,
            ways=recipe.ways,
            shots=recipe.shots,
            queries=recipe.queries,
            tasks=recipe.episodes * recipe.batch,
            seed=self.seed * 100_003 + number,
        )

    def epoch(self, number: int) -> Iterator[list[Episode]]:
        """Give this process's episodes of each step of epoch `number`."""
        tasks = self.tasks(number)
        generator = torch.Generator().manual_seed(self.seed * 100_003 + number)
        for step in range(len(self)):
            chosen = range(step * self.recipe.batch, (step + 1) * self.recipe.batch)
            # Every process draws for all episodes of the step, so that each is the same wherever it is computed.
            episodes = [
                (self._images(tasks.support[task], generator), self._images(tasks.query[task], generator))
                for task in chosen
            ]
            yield episodes[self.share]

    def _images(self, rows: object, generator: torch.Generator) -> Tensor:
        images = self.images[torch.as_tensor(rows)]
        augmentation = self.recipe.augmentation
        return self.normalisation(augmentation(images, augmentation.draw(len(images), generator)))
