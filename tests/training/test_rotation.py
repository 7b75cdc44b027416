"""Learning which way up: turns against NumPy's, the second head, and runs that learn the angle and forget it after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.errors import UserError  # noqa: E402
from kshot.training import networks  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.batches import Batches, Normalisation  # noqa: E402
from kshot.training.checkpoint import export_trained, read  # noqa: E402
from kshot.training.networks.resnet import ResNet  # noqa: E402
from kshot.training.recipe import Phase, Recipe  # noqa: E402
from kshot.training.rotation import Rotation, TwoHeads  # noqa: E402
from kshot.training.trainer import train  # noqa: E402

pytestmark = pytest.mark.train
STILL = Augmentation(flip=False, shift=0.0, colour=0.0, lighting=0.0)
RECIPE = Recipe(
    "small", (Phase(3, 8, frame=12), Phase(2, 12)), "sgd", 0.05, 16, 1e-3, augmentation=STILL, rotation=Rotation()
)
OPTIONS: dict[str, Any] = {"device": "cpu", "precision": "float32"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    build = lambda classes: ResNet(classes, size=12, widths=(8, 16), blocks=(1, 1))  # noqa: E731
    monkeypatch.setitem(networks.NETWORKS, "small", build)


def upright(count: int = 320) -> ImageSet:
    """Two classes that differ in colour; all are bright at the top and dark below."""
    labels = np.arange(count) % 2
    images = np.random.default_rng(0).integers(0, 40, (count, 12, 12, 3))
    images += np.linspace(120, 0, 12).astype(int)[:, None, None]
    images[labels == 1, :, :, 0] += 90
    return ImageSet(images.astype(np.uint8), labels, ("a", "b"), tuple(map(str, range(count))))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("part", [0.25, 0.5, 1.0])
def test_the_part_that_is_said_is_turned_and_by_each_angle_alike(part: float) -> None:
    counts = torch.bincount(Rotation(part).draw(60_000, generator()), minlength=4) / 60_000
    assert torch.allclose(counts, torch.tensor([1 - part, part / 3, part / 3, part / 3]), atol=0.01)


def test_turning_is_numpys_quarter_turns() -> None:
    images = torch.rand(8, 5, 5, 3, generator=generator())
    turns = torch.arange(8) % 4
    for turned, image, quarters in zip(Rotation.turn(images, turns), images, turns, strict=True):
        assert (turned.numpy() == np.rot90(image.numpy(), int(quarters))).all()


def test_batches_turn_after_the_other_changes_which_stay_the_same() -> None:
    data = upright()
    options: dict[str, Any] = {"size": 8, "frame": 12, "batch": 16, "seed": 1, "augmentation": STILL}
    options["normalisation"] = Normalisation.of(data.images)
    turned = next(Batches(data, rotation=Rotation(0.6), **options).epoch(0))
    plain = next(Batches(data, **options).epoch(0))
    assert (plain.turns == 0).all() and 0 < (turned.turns > 0).sum() < 16
    assert torch.equal(turned.rows, plain.rows)
    for image, before, quarters in zip(turned.images, plain.images, turned.turns, strict=True):
        assert torch.equal(image, before.rot90(int(quarters), (1, 2)))


def test_a_frame_is_a_square_cut_out_anywhere_within_the_image() -> None:
    images = torch.arange(12 * 12).reshape(1, 12, 12, 1).repeat(200, 1, 1, 3).to(torch.uint8)
    augmentation = replace(STILL, shift=0.1)
    cut = augmentation(images, augmentation.draw(200, generator()), window=8)
    corners = cut[:, 0, 0, 0].long()
    rows, columns = corners // 12, corners % 12
    assert cut.shape == (200, 8, 8, 3)
    assert sorted(set(rows.tolist())) == sorted(set(columns.tolist())) == [0, 1, 2, 3, 4]
    for square, row, column in zip(cut, rows, columns, strict=True):
        assert torch.equal(square, images[0, row : row + 8, column : column + 8].float())


def test_the_second_head_reads_the_same_features_and_leaves_the_logits_alone() -> None:
    network = networks.build("small", 3).eval()
    both, images = TwoHeads(network).eval(), torch.rand(4, 3, 12, 12, generator=generator())
    logits, angles = both(images)
    assert torch.equal(logits, network(images))
    assert torch.allclose(angles, both.angles(network.features(images)))
    turns = torch.tensor([0, 1, 2, 3])
    expected = 0.3 * torch.nn.functional.cross_entropy(angles, turns)
    assert torch.allclose(Rotation(0.5, 0.3).loss(angles, turns), expected)


def test_a_run_learns_the_angle_beside_the_class(tmp_path: Path) -> None:
    data = upright()
    trained = train(data, RECIPE, out=tmp_path / "run", **OPTIONS)
    both = TwoHeads(trained.network)
    both.angles.load_state_dict(read(tmp_path / "run")["angles"])
    turns = torch.arange(len(data)) // 2 % 4
    images = trained.normalisation(Rotation.turn(torch.from_numpy(data.images), turns))
    with torch.no_grad():
        logits, angles = both.eval()(images)
    assert (angles.argmax(dim=1) == turns).float().mean() > 0.9
    assert (logits.argmax(dim=1).numpy() == data.labels).mean() > 0.9


def test_what_comes_out_is_the_network_alone_for_whole_images(tmp_path: Path) -> None:
    from kshot.backbones import Backbone

    cut = replace(RECIPE, phases=(Phase(1, 8, frame=12),))
    trained = train(upright(), cut, out=tmp_path / "run", **OPTIONS)
    assert not [name for name in trained.network.state_dict() if "angles" in name]
    export_trained(trained, tmp_path / "b.safetensors", weights="raw", source="test")
    assert Backbone.load(tmp_path / "b.safetensors").preprocessing.crop == 12


def test_a_run_resumes_exactly(tmp_path: Path) -> None:
    data = upright()
    whole = train(data, RECIPE, out=tmp_path / "whole", **OPTIONS)
    train(data, RECIPE, out=tmp_path / "broken", stop_after=2, **OPTIONS)
    resumed = train(data, RECIPE, out=tmp_path / "broken", resume=True, **OPTIONS)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name
    angles = [read(tmp_path / name)["angles"]["weight"] for name in ("whole", "broken")]
    assert torch.equal(*angles)


def test_recipes_without_it_are_written_as_before_there_was_any() -> None:
    plain = replace(RECIPE, phases=(Phase(1, 12),), rotation=None).to_json()
    assert "rotation" not in plain and "frame" not in plain["phases"][0]
    written = RECIPE.to_json()
    assert written["rotation"] == {"part": 0.5, "weight": 1.0} and written["phases"][0]["frame"] == 12


@pytest.mark.parametrize(("part", "weight"), [(0.0, 1.0), (1.2, 1.0), (float("nan"), 1.0), (0.5, -1.0)])
def test_parts_and_weights_that_make_no_sense_are_refused(part: float, weight: float) -> None:
    with pytest.raises(UserError, match=r"the part of the images|the weight of the loss over the angles"):
        Rotation(part, weight)


def test_a_square_larger_than_the_image_is_refused() -> None:
    with pytest.raises(UserError, match="squares of 12 px cannot be cut out of images of 8 px"):
        Phase(1, 12, frame=8)
