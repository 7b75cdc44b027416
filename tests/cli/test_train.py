"""`kshot train` from a folder to a backbone that runs without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

import kshot
from kshot.cli import main

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


def test_a_finished_folder_is_not_overwritten(finished: tuple[Path, Path], capsys) -> None:
    images, run = finished
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--data", str(images), "--out", str(run)])
    assert stopped.value.code == 2 and "--resume" in capsys.readouterr().err
