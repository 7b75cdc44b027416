"""`kshot reproduce miniimagenet`: with one's own features, and without any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kshot
from kshot.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    means = random.normal(size=(6, 5))
    X = np.repeat(means, 30, axis=0) + random.normal(size=(180, 5))
    path = tmp_path / "mine.safetensors"
    kshot.Features(X, np.repeat(np.arange(6), 30), base_weights=random.normal(size=(12, 5))).save(path)
    return path


def test_without_any_features_it_says_what_to_do(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("kshot.features._BUNDLED", tmp_path)
    status, out, error = run(capsys, "miniimagenet", "--out", str(tmp_path / "new"))
    assert status == 2 and out == "" and error.count("\n") == 1 and error.startswith("kshot: no features")
    for word in ("kshot train", "kshot extract", "--features resnet34=FILE"):
        assert word in error
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_ones_own_features_give_the_report(capsys, tmp_path: Path, file: Path) -> None:
    out = tmp_path / "report"
    asked = ("--only", "table1", "figure7", "--tasks", "20", "--features", f"resnet34={file}", "--out", str(out))
    status, printed, error = run(capsys, "miniimagenet", *asked)
    assert (status, error) == (0, "") and f"{out / 'index.html'}" in printed
    table = pd.read_csv(out / "table1.csv").set_index(["method", "shots"])
    expected = kshot.evaluate(kshot.Features.load(file), ["gauss-iso"], shots=(5,), tasks=20)
    assert table["accuracy"]["gauss-iso", 5] == pytest.approx(expected["accuracy"][0])
    assert f"--features resnet34={file}" in (out / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("miniimagenet", "--only", "figure5"), "--only: figure5 cannot be run: it tests old and new classes"),
        (("miniimagenet", "--only", "table9"), "no part 'table9' of miniimagenet; there are table1, figure2"),
        (("cifar100", "--features", "vgg-cifar100"), "the results of cifar100 are those of one network: give one"),
        (("miniimagenet", "--features", "nothing"), "--features: there is no features file nothing"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, tmp_path: Path, file: Path, arguments, sentence: str) -> None:
    out = tmp_path / "new"
    status, _, error = run(capsys, *arguments, "--features", str(file), "--out", str(out))
    assert status == 2 and sentence in error and error.count("\n") == 1 and not out.exists()
