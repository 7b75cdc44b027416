"""Predict k-shot tasks with an episodic method, from images: probabilities as the method defines them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kshot.datasets.tasks import Tasks
from kshot.training.batches import Normalisation, resized
from kshot.training.episodic.base import EpisodicMethod, MetricMethod

__all__ = ["predict"]

_CHUNK = 500


@torch.no_grad()
def predict(
    method: EpisodicMethod, images: NDArray[np.uint8], tasks: Tasks, *, normalisation: Normalisation, size: int
) -> NDArray[np.float64]:
    """Give the probabilities (tasks, queries, ways) of the queries of every task.

    Args:
        method: trained or not; it is left in the mode for prediction.
        images: (n, h, h, 3), the images that the tasks' rows refer to.
        tasks: which images are examples and queries.
        normalisation: of the images it was trained on.
        size: side of the images it was trained on.

    """
    method.eval()
    device = next(method.parameters()).device
    used, inverse = np.unique(np.concatenate([tasks.support, tasks.query], axis=1), return_inverse=True)
    rows = torch.from_numpy(inverse.reshape(len(tasks), -1))
    examples = tasks.support.shape[1]
    pixels = resized(images[used], size)
    out = np.empty((len(tasks), tasks.query.shape[1], tasks.ways))
    # Outside training an embedding does not depend on the task: each image is embedded once.
    embedded = _embedded(method, pixels, normalisation, device) if isinstance(method, MetricMethod) else None
    for task in range(len(tasks)):
        support, query = rows[task, :examples], rows[task, examples:]
        if isinstance(method, MetricMethod) and embedded is not None:
            log_proba = method.compare(embedded[support], embedded[query], ways=tasks.ways)
        else:
            shown = [normalisation(pixels[part]).to(device) for part in (support, query)]
            log_proba = method(*shown, ways=tasks.ways)
        out[task] = log_proba.double().softmax(dim=1).cpu().numpy()
    return out


def _embedded(method: MetricMethod, pixels: Tensor, normalisation: Normalisation, device: torch.device) -> Tensor:
    chunks = [
        method.embed(normalisation(pixels[start : start + _CHUNK]).to(device)).float()
        for start in range(0, len(pixels), _CHUNK)
    ]
    return torch.cat(chunks)
