"""The bundled episodic methods reach the bars, and their kept predictions are those of their weights."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kshot
from kshot.datasets.splits import open_data
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.evaluation.episodic import Episodic
from kshot.training.episodic.model_file import _BUNDLED, EpisodicModel

FILES = sorted(_BUNDLED.glob("*-cifar100*.safetensors"))
DOCS = Path(__file__).resolve().parents[2] / "docs"
BARS = {
    ("protonet", 1): 0.48, ("protonet", 5): 0.65, ("matching", 1): 0.46, ("meta-lstm", 1): 0.40, ("meta-lstm", 5): 0.55,
}  # fmt: skip

named = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def features() -> kshot.Features:
    return kshot.Features.load("vgg-cifar100")


@named
def test_the_committed_table_and_card_are_of_the_kept_predictions(path: Path, features: kshot.Features) -> None:
    import pandas as pd

    model = EpisodicModel.load(path)
    name = path.stem.replace("-cifar100", "")
    table = kshot.evaluate(features, [Episodic(name)], shots=[1, 5])
    committed = pd.read_csv(DOCS / "results" / "cifar100" / "episodic.csv").set_index(["method", "shots"])
    for _, row in table.iterrows():
        for column in ("accuracy", "log_likelihood", "brier", "ece"):
            assert row[column] == pytest.approx(committed.loc[(name, row["shots"]), column], abs=2e-5)
    card = DOCS / "models" / f"{path.stem}.md"
    if model.recipe["shots"]:
        stated = [float(found) / 100 for found in re.findall(r"600 tasks \| ([\d.]+)%", card.read_text())]
        assert stated == pytest.approx(list(table["accuracy"]), abs=6e-5)


@pytest.mark.parametrize(("method", "shots"), BARS)
def test_the_better_trained_model_of_each_method_reaches_the_bar(
    method: str, shots: int, features: kshot.Features
) -> None:
    models = [Episodic(f"{method}-{trained}shot") for trained in (1, 5)]
    assert kshot.evaluate(features, models, shots=[shots])["accuracy"].max() >= BARS[method, shots]


@pytest.mark.data
@pytest.mark.train
@named
def test_kept_predictions_are_those_of_the_bundled_weights_on_the_stated_images(
    path: Path, features: kshot.Features, image_data: Path
) -> None:
    from kshot.training.episodic.methods import from_model
    from kshot.training.episodic.predict import predict

    model, some = EpisodicModel.load(path), slice(0, 12)
    images = open_data(image_data / "cifar-100-python").new
    assert images is not None and list(images.ids) == features.source["images"]
    method, normalisation = from_model(model)
    for shots in (1, 5):
        tasks = draw_tasks(features.y, shots=shots)
        kept = model.predicted(features.source["images"], tasks)
        first = Tasks(tasks.classes[some], tasks.support[some], tasks.query[some])
        again = predict(method, images.images, first, normalisation=normalisation, size=model.recipe["size"])
        assert kept is not None
        # Machines differ in the last digits of float32; float16 keeps three.
        np.testing.assert_allclose(kept[some], again, rtol=1e-2, atol=2e-3)
