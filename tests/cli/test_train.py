"""`kshot train` from a folder to a backbone that runs without torch."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

import kshot
from kshot.cli import main
from kshot.cli.train import _recipe
from kshot.datasets.miniimagenet import SPLITS, classes
from kshot.training.recipe import RECIPES

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Train on two classes of small images for two epochs."""
    root, random = tmp_path_factory.mktemp("train"), np.random.default_rng(0)
    for name, level in (("dark", 20), ("light", 160)):
        (root / "images" / name).mkdir(parents=True)
        for number in range(10):
            pixels = (level + random.integers(0, 60, (40, 50, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(root / "images" / name / f"{number}.png")
    options = ["--recipe", "vgg-cifar100", "--epochs", "2", "--batch", "8", "--precision", "float32", "--device", "cpu"]
    main_ok(["train", "--data", str(root / "images"), "--out", str(root / "run"), "--images-per-class", "8", *options])
    return root / "images", root / "run"


def main_ok(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert not stopped.value.code


def test_the_run_leaves_log_curves_recipe_checkpoint_and_backbone(finished: tuple[Path, Path]) -> None:
    _, run = finished
    names = {path.name for path in run.iterdir()}
    assert names == {"log.csv", "curves.png", "recipe.json", "checkpoint.pt", "backbone.safetensors"}
    assert len((run / "log.csv").read_text().splitlines()) == 3


def test_the_backbone_gives_the_networks_own_logits(finished: tuple[Path, Path]) -> None:
    import torch

    from kshot.training.checkpoint import restore

    images, run = finished
    backbone = kshot.Backbone.load(run / "backbone.safetensors")
    trained = restore(run)
    assert trained.averaged is not None and backbone.base_names == ("dark", "light")
    pixels = np.stack([np.asarray(Image.open(images / "dark" / f"{n}.png").resize((32, 32))) for n in range(4)])
    features = backbone.features(pixels)
    with torch.no_grad():
        logits = trained.averaged(trained.normalisation(torch.from_numpy(pixels))).numpy()
    assert features.shape == (4, 128)
    np.testing.assert_allclose(features @ backbone.base_weights.T, logits, rtol=1e-4, atol=1e-4 * np.abs(logits).max())


def test_images_that_it_learned_from_do_not_test_it(
    finished: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, run = finished
    (tmp_path / "new" / "other").mkdir(parents=True)
    Image.new("RGB", (40, 40)).save(tmp_path / "new" / "other" / "1.png")
    arguments = ["extract", str(tmp_path / "new"), "--backbone", str(run / "backbone.safetensors")]
    main_ok([*arguments, "--base-images", str(images), "-o", str(tmp_path / "f.safetensors")])
    found = kshot.Features.load(tmp_path / "f.safetensors")
    assert found.source["base_images"] == ["dark/8.png", "dark/9.png", "light/8.png", "light/9.png"]
    for name in ("dark", "light"):
        (tmp_path / "seen" / name).mkdir(parents=True)
        shutil.copy(images / name / "7.png", tmp_path / "seen" / name)
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--base-images", str(tmp_path / "seen"), "-o", str(tmp_path / "g.safetensors")])
    assert stopped.value.code == 2 and "has learned from all images in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inside", "recipe"),
    [
        (["cifar-100-python/train", "cifar-100-python/test", "cifar-100-python/meta"], "vgg-cifar100"),
        ([f"{split}/{classes(split)[0]}/1.jpg" for split in SPLITS], "resnet34-miniimagenet"),
        (["cat/1.jpg"], "vgg-miniimagenet"),
    ],
)
def test_the_recipe_follows_what_is_in_the_folder_and_not_its_name(
    inside: list[str], recipe: str, tmp_path: Path
) -> None:
    folder = tmp_path / "cifar-imagenet"
    for name in inside:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert _recipe(None, folder) is RECIPES[recipe]


def test_a_finished_folder_is_not_overwritten(finished: tuple[Path, Path], capsys) -> None:
    images, run = finished
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--data", str(images), "--out", str(run)])
    assert stopped.value.code == 2 and "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--recipe", "conv4-cifar100", "--start", "conv4-cifar100"], "was trained on other classes"),
        (["--method", "protonet", "--start", "conv4-cifar100"], "conv4-cifar100 is a backbone, and --method protonet"),
        (["--recipe", "conv4-cifar100", "--start", "nowhere"], "there is no training run in nowhere"),
        (["--distillation", "0.5"], "learns from the network that it starts from: say which by --start"),
        (["--distillation", "0", "--start", "conv4-cifar100"], "the teacher's part of the loss must be above 0"),
        (["--distillation", "0.5", "--method", "protonet"], "--distillation belongs to training by batches"),
        (["--rotation", "0"], "the part of the images that are turned must be above 0"),
        (["--rotation", "0.5", "--method", "protonet"], "--rotation belongs to training by batches"),
    ],
)
def test_a_start_is_a_run_or_a_bundled_backbone_of_the_same_classes(
    finished: tuple[Path, Path], options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(finished[0]), "--out", str(tmp_path / "run"), "--device", "cpu"]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--precision", "float32", "--batch", "8", *options])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and sentence in error and "Traceback" not in error


def test_a_run_learns_from_the_run_it_starts_from(finished: tuple[Path, Path], tmp_path: Path) -> None:
    images, run = finished
    options = ["--recipe", "vgg-cifar100", "--epochs", "1", "--batch", "8", "--precision", "float32", "--device", "cpu"]
    options += ["--images-per-class", "8", "--start", str(run), "--distillation", "0.5", "--rotation", "0.25"]
    main_ok(["train", "--data", str(images), "--out", str(tmp_path / "student"), *options])
    made = kshot.Backbone.load(tmp_path / "student" / "backbone.safetensors").provenance
    assert made["recipe"]["distillation"] == {"weight": 0.5, "temperature": 4.0}
    assert made["recipe"]["rotation"] == {"part": 0.25, "weight": 1.0}
    assert "distillation" not in made["before"][0]["recipe"]
