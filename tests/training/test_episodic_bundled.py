"""The bundled episodic methods reach the bars, and their kept predictions are those of their weights."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kshot
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.evaluation.episodic import Episodic, _images
from kshot.training.episodic.model_file import _BUNDLED, EpisodicModel

FILES = sorted(_BUNDLED.glob("*.safetensors"))
# Features whose rows the tasks refer to, the folder of the images, the committed table.
OF_DATA = {
    "cifar100": ("vgg-cifar100", "cifar-100-python", "results/cifar100/episodic.csv"),
    "miniimagenet": ("resnet34-miniimagenet", "mini-imagenet", "results/miniimagenet/table1.csv"),
}
DOCS = Path(__file__).resolve().parents[2] / "docs"
BARS = {
    ("protonet", 1): 0.48, ("protonet", 5): 0.65, ("matching", 1): 0.46, ("meta-lstm", 1): 0.40, ("meta-lstm", 5): 0.55,
}  # fmt: skip

named = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def of(path: Path) -> tuple[str, kshot.Features, str, str]:
    """Give the method's name, the features of the images it predicts, their folder, and the committed table."""
    data = next(data for data in OF_DATA if f"-{data}" in path.stem)
    features, folder, table = OF_DATA[data]
    return path.stem.replace(f"-{data}", ""), kshot.Features.load(features), folder, table


@named
def test_the_committed_table_and_card_are_of_the_kept_predictions(path: Path) -> None:
    import pandas as pd

    model = EpisodicModel.load(path)
    name, features, _, stated_in = of(path)
    table = kshot.evaluate(features, [Episodic(name)], shots=[1, 5])
    committed = pd.read_csv(DOCS / stated_in).set_index(["method", "shots"])
    for _, row in table.iterrows():
        for column in ("accuracy", "log_likelihood", "brier", "ece"):
            assert row[column] == pytest.approx(committed.loc[(name, row["shots"]), column], abs=2e-5)
    card = DOCS / "models" / f"{path.stem}.md"
    if model.recipe["shots"]:
        stated = [float(found) / 100 for found in re.findall(r"600 tasks \| ([\d.]+)%", card.read_text())]
        assert stated == pytest.approx(list(table["accuracy"]), abs=6e-5)


@pytest.mark.parametrize(("method", "shots"), BARS)
def test_trained_at_the_shots_of_the_test_each_method_reaches_the_bar(method: str, shots: int) -> None:
    features = kshot.Features.load("vgg-cifar100")
    table = kshot.evaluate(features, [Episodic(f"{method}-{shots}shot")], shots=[shots])
    assert table["accuracy"].item() >= BARS[method, shots]


@pytest.mark.data
@pytest.mark.train
@named
def test_kept_predictions_are_those_of_the_bundled_weights_on_the_stated_images(path: Path, image_data: Path) -> None:
    from kshot.training.episodic.methods import from_model
    from kshot.training.episodic.predict import predict

    model, some = EpisodicModel.load(path), slice(0, 12)
    _, features, folder, _ = of(path)
    images = _images(features.source["data"], image_data / folder)
    assert list(images.ids) == features.source["images"]
    method, normalisation = from_model(model)
    for shots in (1, 5):
        tasks = draw_tasks(features.y, shots=shots)
        kept = model.predicted(features.source["images"], tasks)
        first = Tasks(tasks.classes[some], tasks.support[some], tasks.query[some])
        again = predict(method, images.images, first, normalisation=normalisation, size=model.recipe["size"])
        assert kept is not None
        # Machines differ in the last digits of float32; float16 keeps three.
        np.testing.assert_allclose(kept[some], again, rtol=1e-2, atol=2e-3)
