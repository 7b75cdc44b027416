"""How a network is trained, as data: every number that decides the result, and the recipes of the bundled networks."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from kshot.errors import UserError
from kshot.training.augmentation import Augmentation
from kshot.training.distillation import Distillation
from kshot.training.rotation import Rotation

__all__ = ["CIFAR_AUGMENTATION", "RECIPES", "Phase", "Recipe", "warm_cosine"]


@dataclass(frozen=True)
class Phase:
    """So many epochs on images of this side (progressive resizing), with the augmentation's strength.

    `depth` is the part of the network's blocks that take part (progressive depth, `Network.grow`). With `frame`, the
    images are scaled to that side and squares of `size` are cut out of them anywhere, instead of shifts: a step costs
    as little as with small images, and things are as large in them as in whole images of `frame` pixels.
    """

    epochs: int
    size: int
    strength: float = 1.0
    depth: float = 1.0
    frame: int | None = None

    def __post_init__(self) -> None:
        if self.frame is not None and self.frame < self.size:
            raise UserError(f"squares of {self.size} px cannot be cut out of images of {self.frame} px")

    @property
    def whole(self) -> int:
        """Side of a whole image."""
        return self.frame or self.size


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a training run gives, next to the data and the seed.

    Args:
        network: a name of `kshot.training.networks`.
        phases: epochs and image sizes, in order.
        optimiser: Adam (D.4) or momentum SGD with Nesterov's step (D.3).
        learning_rate: its peak, for a batch of `batch` images.
        batch: images per step over all processes.
        weight_decay: λ in the term ½λ‖W‖² on `Network.regularised()`. For the last layer it sets the variance of
            the base weights and so the prior, which is why it belongs to the recipe.
        last_decay: λ of the last layer, where it differs.
        warmup: fraction of the computation over which the rate rises from zero; then it falls to zero as a cosine.
        averaging: decay per step of the running average of the weights (EMA); 0 for none. The last phase must be some
            times longer than 1 / (1 - decay) steps, or the average still holds the weights, and the batch
            normalisation's statistics, of smaller images.
        augmentation: the random changes of the images.
        distillation: learn also from the network that the run starts from; None for labels alone.
        rotation: turn some images, and learn also by how much; None for upright images alone.

    """

    network: str
    phases: tuple[Phase, ...]
    optimiser: Literal["adam", "sgd"]
    learning_rate: float
    batch: int
    weight_decay: float
    last_decay: float | None = None
    warmup: float = 0.05
    averaging: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)
    distillation: Distillation | None = None
    rotation: Rotation | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs over all phases."""
        return sum(phase.epochs for phase in self.phases)

    def phase_of(self, epoch: int) -> Phase:
        """Give the phase that the epoch (0..) belongs to."""
        for phase in self.phases:
            if epoch < phase.epochs:
                return phase
            epoch -= phase.epochs
        return self.phases[-1]

    def progress(self, epoch: int, fraction: float) -> float:
        """Give the part of the whole computation that is done, in 0..1; an epoch's cost is pixels × depth."""
        phases = [self.phase_of(number) for number in range(self.epochs)]
        cost = [phase.size**2 * phase.depth for phase in phases]
        return (sum(cost[:epoch]) + fraction * cost[epoch]) / sum(cost)

    def rate(self, progress: float) -> float:
        """Give the learning rate at a progress in 0..1: a linear warm-up, then one cosine to zero."""
        return self.learning_rate * warm_cosine(progress, self.warmup)

    def changed(self, **changes: Any) -> Recipe:
        """Replace what is given and not None. `epochs` stretches the phases to that total in their proportions."""
        changes = {name: value for name, value in changes.items() if value is not None}
        epochs = changes.pop("epochs", None)
        unknown = sorted(set(changes) - {entry.name for entry in fields(self)})
        if unknown:
            raise UserError(f"a recipe has no {unknown[0]!r}")
        recipe = replace(self, **changes)
        return recipe if epochs is None else replace(recipe, phases=_stretched(recipe.phases, epochs))

    def to_json(self) -> dict[str, Any]:
        """Give the recipe as plain data, for the checkpoint and the model card."""
        made = asdict(self)
        # What came later is left out where it is not used: so recipes were written before there was any.
        for name in ("distillation", "rotation"):
            if made[name] is None:
                del made[name]
        for phase in made["phases"]:
            if phase["frame"] is None:
                del phase["frame"]
        return made


def warm_cosine(progress: float, warmup: float) -> float:
    """Give the part of the peak rate at a progress in 0..1: a linear rise over `warmup`, then one cosine to zero.

    >>> [round(warm_cosine(progress, 0.1), 3) for progress in (0.05, 0.1, 0.55, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def _stretched(phases: tuple[Phase, ...], epochs: int) -> tuple[Phase, ...]:
    """Share out `epochs` over the phases in their proportions, to the nearest whole numbers that add up.

    The last phase has one in any case: a network has the size and the depth that it ends with.
    """
    if epochs < 1:
        raise UserError(f"epochs must be at least 1, not {epochs}")
    total, done, shared = sum(phase.epochs for phase in phases), 0, []
    for phase in phases:
        before = round(done * epochs / total)
        done += phase.epochs
        shared.append(replace(phase, epochs=round(done * epochs / total) - before))
    if not shared[-1].epochs:
        most = max(range(len(shared)), key=lambda place: shared[place].epochs)
        shared[most] = replace(shared[most], epochs=shared[most].epochs - 1)
        shared[-1] = replace(shared[-1], epochs=1)
    return tuple(phase for phase in shared if phase.epochs)


CIFAR_AUGMENTATION = Augmentation(shift=4 / 32, fill="reflect", colour=0.0, lighting=0.0)

_RESNET34 = Recipe(
    network="resnet34-miniimagenet",
    phases=(Phase(epochs=28, size=42, strength=0.5), Phase(epochs=8, size=64), Phase(epochs=12, size=84)),
    optimiser="sgd",
    learning_rate=0.1,
    batch=64,
    weight_decay=5e-4,
    averaging=0.999,
)

RECIPES = {
    # The competitors' network trained by batches, for the comparison at equal network (docs/episodic.md).
    "conv4-cifar100": Recipe(
        network="conv4-cifar100",
        phases=(Phase(epochs=15, size=32),),
        optimiser="adam",
        learning_rate=2e-3,
        batch=128,
        weight_decay=4e-4,
        averaging=0.999,
        augmentation=CIFAR_AUGMENTATION,
    ),
    "vgg-cifar100": Recipe(
        network="vgg-cifar100",
        phases=(Phase(epochs=60, size=32),),
        optimiser="adam",
        learning_rate=1e-3,
        batch=128,
        weight_decay=4e-4,
        averaging=0.999,
        augmentation=CIFAR_AUGMENTATION,
    ),
    "vgg-miniimagenet": Recipe(
        network="vgg-miniimagenet",
        phases=(Phase(epochs=30, size=84),),
        optimiser="adam",
        learning_rate=1e-3,
        batch=128,
        weight_decay=4e-4,
        averaging=0.999,
    ),
    # As long as `resnet34-miniimagenet-500` takes on one CPU core in float32. Its dense layer fits 65 to 96 px.
    "vgg-miniimagenet-500": Recipe(
        network="vgg-miniimagenet",
        phases=(Phase(epochs=7, size=66, strength=0.5), Phase(epochs=2, size=84)),
        optimiser="adam",
        learning_rate=1e-3,
        batch=64,
        weight_decay=4e-4,
        averaging=0.99,
    ),
    "resnet34-miniimagenet": _RESNET34,
    # For about two hours of one CPU core in float32: shallow and small first, deep and whole at the end.
    "resnet34-miniimagenet-short": replace(
        _RESNET34,
        phases=(
            Phase(epochs=8, size=42, strength=0.5, depth=0.25),
            Phase(epochs=4, size=42, strength=0.5, depth=0.5),
            Phase(epochs=2, size=64, depth=0.5),
            Phase(epochs=1, size=64),
            Phase(epochs=1, size=84),
        ),
        averaging=0.99,
    ),
    # The same computation on 500 images a class (`--images-per-class 500`): as many images at each size and depth.
    "resnet34-miniimagenet-500": replace(
        _RESNET34,
        phases=(
            Phase(epochs=10, size=42, strength=0.5, depth=0.25),
            Phase(epochs=5, size=42, strength=0.5, depth=0.5),
            Phase(epochs=3, size=64, depth=0.5),
            Phase(epochs=1, size=64),
            Phase(epochs=1, size=84),
        ),
        averaging=0.99,
    ),
    # After it (`--start`): the same again with the whole depth, from half the rate, for two more hours of one core.
    "resnet34-miniimagenet-more": replace(
        _RESNET34,
        phases=(Phase(epochs=5, size=42, strength=0.5), Phase(epochs=2, size=64), Phase(epochs=1, size=84)),
        learning_rate=0.06,
        averaging=0.99,
    ),
    # And after that: larger images only, for two more hours.
    "resnet34-miniimagenet-last": replace(
        _RESNET34,
        phases=(Phase(epochs=3, size=64), Phase(epochs=2, size=84)),
        learning_rate=0.05,
        averaging=0.99,
    ),
    # And a fourth, from the third's backbone file: 73 minutes of two cores in bfloat16.
    "resnet34-miniimagenet-fourth": replace(
        _RESNET34,
        phases=(Phase(epochs=5, size=64), Phase(epochs=6, size=84)),
        learning_rate=0.06,
        averaging=0.99,
    ),
    # And a fifth, which learns also from what the fourth says of the images: 94 minutes of two cores.
    "resnet34-miniimagenet-fifth": replace(
        _RESNET34,
        phases=(Phase(epochs=7, size=64), Phase(epochs=8, size=84)),
        learning_rate=0.08,
        averaging=0.99,
        distillation=Distillation(weight=0.5, temperature=4.0),
    ),
    # And a sixth, on squares cut out of the images, half of them turned: 100 minutes of two cores in float32. The
    # network went on as the mean of its weights and those it started from (scripts/average_networks.py).
    "resnet34-miniimagenet-sixth": replace(
        _RESNET34,
        phases=(Phase(epochs=5, size=64, frame=84), Phase(epochs=1, size=84)),
        learning_rate=0.05,
        averaging=0.99,
        distillation=Distillation(weight=0.5, temperature=4.0),
        rotation=Rotation(part=0.5, weight=1.0),
    ),
    # And a seventh from that mean, upright and by the labels alone: 64 minutes of two cores in float32. The bundled
    # network is the mean of its weights and those it started from, again.
    "resnet34-miniimagenet-seventh": replace(
        _RESNET34,
        phases=(Phase(epochs=2, size=64, frame=84), Phase(epochs=1, size=84)),
        learning_rate=0.03,
        averaging=0.99,
    ),
    # On 64 classes (`--leave-out 16`), to calibrate: two and a half hours of one core in float32, in one plan.
    "resnet34-miniimagenet-sibling": replace(
        _RESNET34,
        phases=(
            Phase(epochs=12, size=42, strength=0.5, depth=0.25),
            Phase(epochs=4, size=42, strength=0.5, depth=0.5),
            Phase(epochs=3, size=64, depth=0.5),
            Phase(epochs=2, size=64),
            Phase(epochs=2, size=84),
        ),
        averaging=0.99,
    ),
}
