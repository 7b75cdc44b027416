"""`kshot evaluate`: what it prints and writes, and what it says when the folder is too small."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from kshot.backbones.names import bundled
from kshot.cli import main
from kshot.cli.evaluate import UNCALIBRATED
from kshot.errors import UserError
from kshot.training.backbone_file import read_backbone, write_backbone

COLUMNS = ["method", "shots", "accuracy", "accuracy_ci95", "log_likelihood", "brier", "ece"]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes that a network tells apart, and a fourth with too few photographs."""
    root = tmp_path_factory.mktemp("folder") / "shapes"
    rng = np.random.default_rng(0)
    x, y = np.meshgrid(np.arange(96), np.arange(96))
    for name, pattern in {
        "[red]stripes": x,
        "rings": np.hypot(x - 48, y - 48),
        "checks": (x // 8 + y // 8) * 16,
    }.items():
        (root / name).mkdir(parents=True)
        for number in range(12):
            wave = np.sin(pattern / (2 + number / 3))[..., None] * rng.uniform(40, 120, 3) + 128
            noisy = np.clip(wave + rng.normal(0, 10, wave.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(root / name / f"{number}.png")
    (root / "few").mkdir()
    Image.new("RGB", (50, 50), "green").save(root / "few" / "1.png")
    (root / "rings" / "copy.png").write_bytes((root / "checks" / "0.png").read_bytes())
    (root / "rings" / "broken.jpg").write_bytes(b"no image")
    return root


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code or 0  # type: ignore[return-value]


def test_ones_own_network_with_a_bundled_name_is_judged_without_the_bundled_numbers(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = replace(read_backbone(bundled()["vgg-cifar100"]), provenance={"data": "of my own"})
    own = replace(own, base_weights=own.base_weights * np.float32(1.01))
    write_backbone(tmp_path / "own.safetensors", own)
    options = ["--backbone", tmp_path / "own.safetensors", "--shots", "1", "--tasks", "4"]
    assert run("evaluate", shapes, "--out", tmp_path / "report", *options) == 0
    assert set(pd.read_csv(tmp_path / "report" / "results.csv")["method"]) == set(UNCALIBRATED)


def test_a_folder_is_judged_and_the_figures_are_written(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "report"
    options = ["--shots", "1,3,50", "--tasks", "20", "--methods", "gauss-iso, nearest"]
    assert run("evaluate", shapes, "--out", out, *options) == 0
    said = capsys.readouterr().out
    assert "4 classes, 38 photographs" in said
    assert "skipped 1: rings/broken.jpg (not an image)" in said
    assert "the same photograph in two classes" in said and "checks/0.png and rings/copy.png" in said
    assert "left out, too few photographs: few (1)" in said
    assert "no tasks with 50 examples" in said
    assert "20 tasks: 3 of 3 classes, 1 or 3 examples of each, 9 other photographs" in said
    results = pd.read_csv(out / "results.csv")
    assert list(results.columns[: len(COLUMNS)]) == COLUMNS
    assert list(results["method"]) == ["gauss-iso"] * 2 + ["nearest"] * 2 and list(results["shots"]) == [1, 3] * 2
    assert results["accuracy"].between(0.5, 1).all()
    tasks = pd.read_csv(out / "per_task.csv")
    means = tasks.groupby(["method", "shots"], sort=False)["accuracy"].mean().to_numpy()
    np.testing.assert_allclose(means, results["accuracy"], atol=1e-12)
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "calibration.svg").read_text("utf-8")
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["results.csv", "per_task.csv", "calibration.png", "calibration.svg"]
    )


def test_without_bundled_numbers_the_methods_are_those_that_can_be_run(
    shapes: Path, tmp_path: Path, small_backbone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--out", tmp_path / "out", "--tasks", "4", "--shots", "1"]
    assert run("evaluate", shapes, *common, "--backbone", small_backbone) == 0
    assert pd.read_csv(tmp_path / "out/results.csv")["method"].tolist() == ["gauss-iso", "gauss-iso:laplace", "nearest"]
    whole = read_backbone(small_backbone)
    (tmp_path / "net.onnx").write_bytes(whole.onnx.tobytes())  # without a last layer
    foreign = ["--backbone", tmp_path / "net.onnx", "--preprocessing", "zero-to-one"]
    assert run("evaluate", shapes, *common, *foreign) == 0
    assert pd.read_csv(tmp_path / "out/results.csv")["method"].tolist() == ["nearest", "svm"]
    assert run("evaluate", shapes, *common, "--backbone", small_backbone, "--methods", "nearest,nearest") == 0
    assert pd.read_csv(tmp_path / "out/results.csv")["method"].tolist() == ["nearest"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--shots", "one"], "--shots one is not a list of whole numbers"),
        (["--shots", "90"], "90 examples and a query of each of 2 classes"),
        (["--ways", "9"], "4 classes, too few for 9 ways"),
        (["--methods", ","], "--methods names no method"),
        (["--backbone", "efficientnet-light0"], "Did you mean efficientnet-lite0"),
        (["--device", "abacus"], "there is no device 'abacus'"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert run("evaluate", shapes, "--out", tmp_path / "out", *options) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out
    assert not (tmp_path / "out").exists()


@pytest.fixture
def small(tmp_path: Path, paint_class) -> Path:
    for seed, name in enumerate(("robin", "sparrow")):
        paint_class(tmp_path / "small" / name, seed, 4)
    return tmp_path / "small"


def test_a_narrow_encoding_costs_a_few_signs_and_not_the_figures(
    small: Path, tmp_path: Path, small_backbone: Path
) -> None:
    options = ["--backbone", small_backbone, "--tasks", "2", "--methods", "nearest", "--shots", "1"]
    command = [sys.executable, "-m", "kshot", "evaluate", small, "--out", tmp_path / "out", *options]
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=False, env=narrow)
    assert done.returncode == 0 and done.stderr == b"" and b"nearest" in done.stdout and b" ?" in done.stdout
    assert (tmp_path / "out" / "results.csv").exists()


def test_a_folder_that_cannot_be_written_is_found_out_before_the_work(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshot.cli.evaluate._gather", None)  # no work is begun
    (tmp_path / "file").touch()
    assert run("evaluate", small, "--out", tmp_path / "file" / "out") == 2
    assert "is a file: give another one" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: mode == os.R_OK)
    assert run("evaluate", small, "--out", tmp_path / "new" / "out") == 2
    assert "is read-only for you. Give another one" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_figures_are_written_before_they_are_printed(
    small: Path, tmp_path: Path, small_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise UserError("no paper")

    monkeypatch.setattr("kshot.cli.evaluate._print", fail)
    options = ["--backbone", small_backbone, "--tasks", "2", "--methods", "nearest", "--shots", "1"]
    assert run("evaluate", small, "--out", tmp_path / "out", *options) == 2
    assert {"results.csv", "per_task.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}
