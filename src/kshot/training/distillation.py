"""Learning from a teacher: what the network that a run starts from says of each image, as soft targets.

A network's probabilities tell which classes look alike, where a label names one only. A student of the same shape that
learns from both keeps its features more general than labels alone would (Hinton et al. 2015; Furlanello et al. 2018,
"Born-again neural networks"), which is what new classes need (Tian et al. 2020, "Rethinking few-shot image
classification"). The teacher is asked once, before the run, so that a step costs no more than without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional

from kshot.errors import UserError
from kshot.training.batches import Normalisation

__all__ = ["Distillation", "lesson", "logits_of"]

_CHUNK = 500  # images at a time, to bound the memory


@dataclass(frozen=True)
class Distillation:
    """How much of the loss is the teacher's, and how soft its targets are.

    Args:
        weight: part of the loss that compares with the teacher; the labels have the rest.
        temperature: τ that divides both networks' logits before they are compared.

    """

    weight: float = 0.5
    temperature: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise UserError(f"the teacher's part of the loss must be above 0 and at most 1, not {self.weight:g}")
        if not self.temperature > 0:
            raise UserError(f"the temperature of distillation must be above 0, not {self.temperature:g}")

    def __call__(self, logits: Tensor, labels: Tensor, taught: Tensor) -> Tensor:
        """Give (1 - weight) · cross-entropy + weight · τ² KL(softmax(taught/τ) ‖ softmax(logits/τ)), a mean.

        τ² keeps the gradient's size whatever the temperature is (Hinton et al. 2015, Section 2).
        """
        soft = functional.kl_div(
            functional.log_softmax(logits / self.temperature, dim=1),
            functional.log_softmax(taught / self.temperature, dim=1),
            log_target=True,
            reduction="batchmean",
        )
        return (1 - self.weight) * functional.cross_entropy(logits, labels) + self.weight * self.temperature**2 * soft


@torch.no_grad()
def logits_of(fabric: Fabric, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Iterator[Tensor]:
    """Give a network's logits of images (n, h, w, 3) uint8, chunk by chunk, on the device of the run."""
    network.eval()
    for chunk in torch.split(images, _CHUNK):
        with fabric.autocast():
            logits: Tensor = network(fabric.to_device(normalisation(chunk)))
        yield logits


def lesson(fabric: Fabric, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Tensor:
    """Give the teacher's logits of images (n, h, w, 3) uint8, each the mean of the image's and its mirror image's.

    The processes of a run share the images out and tell each other.
    """
    share = torch.arange(len(images)).tensor_split(fabric.world_size)[fabric.global_rank]
    own = images[share]
    image, mirrored = (torch.cat(list(logits_of(fabric, network, way, normalisation))) for way in (own, own.flip(2)))
    taught = torch.zeros(len(images), image.shape[1], dtype=image.dtype, device=image.device)
    taught[share] = (image + mirrored) / 2
    everyone: Tensor = fabric.all_reduce(taught, reduce_op="sum")
    return everyone.cpu()
