"""What is bundled is what its card says: figures are recomputed from the files, and from the images where they are."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import kshot
from kshot.datasets.cifar100_classes import BASE_CLASSES, FINE_CLASSES, HELD_OUT_CLASSES, SUPERCLASS_OF
from kshot.datasets.pictures import open_pictures
from kshot.datasets.splits import open_data
from kshot.datasets.tasks import draw_tasks

DOCS = Path(__file__).resolve().parent.parent / "docs" / "models"
COMPARED = ("resnet34-miniimagenet-500", "vgg-miniimagenet-500")
TRAINED_HERE = ("vgg-cifar100", "conv4-cifar100", "resnet34-miniimagenet", *COMPARED)
FEATURES_ONLY = ("resnet34-miniimagenet-short",)


@pytest.fixture(scope="module")
def features() -> kshot.Features:
    return kshot.Features.load("vgg-cifar100")


def card_figures(name: str, pattern: str) -> list[float]:
    """Find the percentages of the rows of a model card that match a pattern."""
    return [float(found) / 100 for found in re.findall(pattern + r".*?\| ([\d.]+)%", (DOCS / f"{name}.md").read_text())]


def test_vgg_features_are_of_the_papers_split(features: kshot.Features) -> None:
    assert features.X.shape == (12_000, 128) and features.base_X is not None and features.base_X.shape == (8_000, 128)
    assert features.names == tuple(FINE_CLASSES[index] for index in HELD_OUT_CLASSES)
    assert features.base_names == tuple(FINE_CLASSES[index] for index in BASE_CLASSES)
    assert set(np.bincount(features.y)) == {600} and set(np.bincount(features.base_y)) == {100}
    assert features.base_groups == tuple(SUPERCLASS_OF[name] for name in features.base_names)
    assert features.base_bias is None
    assert len(features.source["images"]) == 12_000 and len(features.source["base_images"]) == 8_000


def test_vgg_reaches_the_accuracy_on_its_card(features: kshot.Features) -> None:
    accuracy = ((features.base_X @ features.base_weights.T).argmax(axis=1) == features.base_y).mean()
    assert accuracy == pytest.approx(card_figures("vgg-cifar100", "test images of the base classes")[0], abs=1e-4)
    assert accuracy >= 0.59


@pytest.mark.parametrize("shots", [1, 5, 10])
@pytest.mark.parametrize("name", TRAINED_HERE + FEATURES_ONLY)
def test_a_network_reaches_the_k_shot_accuracy_on_its_card(name: str, shots: int) -> None:
    features = kshot.Features.load(name)
    prior = kshot.GaussianPrior.fit(features.base_weights, covariance="iso")
    tasks = draw_tasks(features.y, shots=shots, tasks=600)
    _, info = kshot.fit_tasks(prior, features.X[tasks.support], tasks.support_labels, X_query=features.X[tasks.query])
    accuracy = (info.proba.argmax(axis=2) == tasks.query_labels).mean()
    assert accuracy == pytest.approx(card_figures(name, rf"5-way {shots}-shot")[0], abs=1e-4)
    if (name, shots) == ("vgg-cifar100", 5):
        assert accuracy >= 0.74


@pytest.mark.parametrize("name", TRAINED_HERE)
def test_the_committed_curve_has_every_epoch_of_the_run_and_of_those_before(name: str) -> None:
    with (DOCS / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    made = kshot.Backbone.load(name).provenance
    assert len(rows) == sum(run["epochs"] for run in (made, *made.get("before", [])))


def test_the_resnet_is_of_the_papers_split() -> None:
    resnet = kshot.Features.load("resnet34-miniimagenet")
    assert (
        resnet.X.shape == (12_000, 256) and resnet.base_weights is not None and resnet.base_weights.shape == (80, 256)
    )
    assert set(np.bincount(resnet.y)) == {600} and not set(resnet.names) & set(resnet.base_names)
    assert resnet.base_X is None  # it has seen all images of its base classes


@pytest.mark.parametrize("name", COMPARED)
def test_networks_that_are_compared_kept_100_images_of_each_base_class_aside(name: str) -> None:
    features, main = kshot.Features.load(name), kshot.Features.load("resnet34-miniimagenet")
    assert features.base_X is not None and set(np.bincount(features.base_y)) == {100}
    assert features.source["images"] == main.source["images"] and features.base_names == main.base_names
    accuracy = ((features.base_X @ features.base_weights.T).argmax(axis=1) == features.base_y).mean()
    assert accuracy == pytest.approx(card_figures(name, "test images of the base classes")[0], abs=1e-4)


@pytest.mark.train
def test_the_two_resnets_that_are_compared_took_the_same_computation() -> None:
    """By the recipes: the clock also measures what else the machine did."""
    from kshot.training.recipe import RECIPES

    costs = []
    for name, images in (("resnet34-miniimagenet-500", 40_000), ("resnet34-miniimagenet-short", 48_000)):
        recipe, made = RECIPES[name], kshot.Features.load(name).source["training"]
        assert made["images_seen"] == pytest.approx(recipe.epochs * images, rel=2e-3)
        costs.append(images * sum(phase.epochs * phase.size**2 * phase.depth for phase in recipe.phases))
    assert max(costs) < 1.05 * min(costs)


@pytest.mark.data
@pytest.mark.parametrize("name", TRAINED_HERE)
def test_the_bundled_features_are_those_of_the_bundled_network_on_the_stated_images(
    name: str, image_data: Path
) -> None:
    features, backbone = kshot.Features.load(name), kshot.Backbone.load(name)
    assert features.source["backbone"]["hash"] == backbone.hash
    source = open_pictures(image_data / ("mini-imagenet" if "imagenet" in name else "cifar-100-python"))
    pairs = [(features.X, features.source["images"], source.new)]
    if features.base_X is not None:
        pairs.append((features.base_X, features.source["base_images"], source.base))
    for stored, ids, pictures in pairs:
        assert pictures is not None
        rows = np.random.default_rng(0).choice(len(ids), 64, replace=False)
        place = {identifier: row for row, identifier in enumerate(pictures.ids)}
        again = backbone.features([pictures.items[place[ids[row]]] for row in rows])
        np.testing.assert_allclose(stored[rows], again, rtol=2e-3, atol=2e-3 * np.abs(again).max())


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.train
def test_two_epochs_of_the_training_command_follow_the_committed_curve(image_data: Path, tmp_path: Path) -> None:
    from kshot.training.recipe import RECIPES
    from kshot.training.trainer import train

    split = open_data(image_data / "cifar-100-python")
    train(split.base, RECIPES["vgg-cifar100"], out=tmp_path, test=split.base_test, device="cpu", stop_after=2)
    with (tmp_path / "log.csv").open() as new, (DOCS / "vgg-cifar100.csv").open() as committed:
        for found, expected in zip(csv.DictReader(new), csv.DictReader(committed), strict=False):
            # The arithmetic differs between machines, and with it every later step a little.
            assert float(found["loss"]) == pytest.approx(float(expected["loss"]), rel=0.05)
            assert float(found["test_accuracy"]) == pytest.approx(float(expected["test_accuracy"]), abs=0.03)
