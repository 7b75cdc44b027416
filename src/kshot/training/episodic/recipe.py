"""How an episodic method is trained, as data: every number that decides the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kshot.errors import UserError
from kshot.training.augmentation import Augmentation
from kshot.training.episodic import METHODS
from kshot.training.networks import build
from kshot.training.recipe import CIFAR_AUGMENTATION, warm_cosine

__all__ = ["LEARNER", "EpisodicRecipe", "recipe_for"]

LEARNER = "conv4-32"
"""What the Meta-Learner LSTM adapts: it takes no other network."""


_EPOCHS = {"protonet": (30, 30), "matching": (36, 12), "matching-fce": (4, 4), "meta-lstm": (36, 45)}
"""At one shot and at more: what one CPU core does in 3 to 35 minutes at 32 px."""


@dataclass(frozen=True)
class EpisodicRecipe:
    """Everything that decides what an episodic run gives, next to the data and the seed.

    Args:
        method: one of `METHODS`.
        network: a name of `kshot.training.networks`, whose features are the embedding; or `LEARNER`.
        size: side of the images.
        ways, shots, queries: of every episode.
        epochs: of `episodes` steps each, with a checkpoint after each.
        episodes: steps of an epoch.
        batch: episodes per step over all processes, whose losses are averaged.
        learning_rate: Adam's, at its peak.
        clip: largest norm of the gradient; 0 for no limit.
        warmup: fraction of the steps over which the rate rises from zero; then it falls to zero as a cosine.
        averaging: decay per step of the running average of the weights (EMA); 0 for none.
        test_tasks: 5-way tasks on which each epoch is measured.
        augmentation: random changes of the images; none when tested.

    """

    method: str
    network: str
    size: int
    ways: int
    shots: int
    queries: int = 15
    epochs: int = 30
    episodes: int = 100
    batch: int = 1
    learning_rate: float = 1e-3
    clip: float = 0.0
    warmup: float = 0.02
    averaging: float = 0.99
    test_tasks: int = 40
    augmentation: Augmentation = field(default_factory=Augmentation)

    def progress(self, epoch: int, fraction: float) -> float:
        """Give the part of the whole computation that is done, in 0..1."""
        return (epoch + fraction) / self.epochs

    def rate(self, progress: float) -> float:
        """Give the learning rate at a progress in 0..1: a linear warm-up, then one cosine to zero."""
        return self.learning_rate * warm_cosine(progress, self.warmup)

    def changed(self, **changes: Any) -> EpisodicRecipe:
        """Replace what is given and not None."""
        changes = {name: value for name, value in changes.items() if value is not None}
        unknown = sorted(set(changes) - {entry.name for entry in fields(self)})
        if unknown:
            raise UserError(f"an episodic recipe has no {unknown[0]!r}")
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as plain data, for the checkpoint and the model card."""
        return asdict(self)


def recipe_for(
    method: str, data: str | None, *, ways: int | None = None, shots: int = 5, network: str | None = None
) -> EpisodicRecipe:
    """Give the recipe of a method for a data set by its name, None for any other; the image size follows the network.

    Prototypical and Matching Networks train on more classes than they are tested on (Snell et al., Section 2.6); the
    Meta-Learner LSTM cannot.
    """
    if method not in METHODS:
        raise UserError(f"there is no episodic method {method!r}: choose one of {', '.join(METHODS)}")
    usual = "conv4-cifar100" if data == "cifar100" else "conv4-miniimagenet"
    if method == "meta-lstm":
        recipe = EpisodicRecipe(method, network or LEARNER, build(usual, 1).size, ways or 5, shots, clip=0.25)
        recipe = replace(recipe, test_tasks=15)  # a test task costs as much as one to train on
    else:
        chosen = network or usual
        recipe = EpisodicRecipe(method, chosen, build(chosen, 1).size, ways or 20, shots)
        recipe = replace(recipe, queries=10 if shots == 1 else 5)
    if method == "matching" and shots == 1:
        # Without a factor on the cosine every probability stays near 1 / ways, and learning is slow.
        recipe = replace(recipe, learning_rate=3e-3)
    recipe = replace(recipe, epochs=_EPOCHS[method][0 if shots == 1 else 1])
    return replace(recipe, augmentation=CIFAR_AUGMENTATION if recipe.size == 32 else Augmentation())
