"""`kshot reproduce`: what it writes, and one sentence for what is the user's to mend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from kshot.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mnist",), "there is nothing to reproduce for 'mnist': the results are those of cifar100"),
        (("cifar100", "--only", "figure3"), "no part 'figure3' of cifar100; there are figure2, figure4, figure5"),
        (("cifar100", "table9"), "table9: parts are named after --only, as in --only table9"),
        (("cifar100", "--only", "table9", "nothing"), "there is no part 'nothing'"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    status, out, error = run(capsys, *arguments, "--out", str(tmp_path / "new"))
    assert status == 2 and out == "" and error.startswith("kshot: ") and sentence in error
    assert error.count("\n") == 1 and not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_refused(capsys, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("mine")
    status, _, error = run(capsys, "cifar100", "--only", "figure6", "--out", str(tmp_path / "report"))
    assert status == 2 and f"{tmp_path / 'report'} is a file: give another one" in error
    status, _, error = run(capsys, "cifar100", "--only", "figure6", "--out", str(tmp_path / "report" / "deep"))
    assert status == 2 and f"{tmp_path / 'report'} is a file" in error and (tmp_path / "report").read_text() == "mine"


def test_without_the_sampler_it_says_so_before_it_begins(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "blackjax", None)
    monkeypatch.delitem(sys.modules, "kshot.inference.nuts", raising=False)
    status, _, error = run(capsys, "cifar100", "--out", str(tmp_path / "new"))
    assert status == 2 and 'pip install "kshot[sample]"' in error and "--no-nuts" in error
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_part_of_it_leaves_figure_numbers_and_page_and_no_progress_in_a_pipe(tmp_path: Path) -> None:
    out = tmp_path / "made" / "for it"
    command = [sys.executable, "-m", "kshot", "reproduce", "cifar100", "--only", "figure6", "figure4", "--tasks", "20"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=True)
    assert done.stderr == "" and f"{out / 'index.html'}" in done.stdout
    assert "held" in done.stdout and "The base weights have structure" in done.stdout
    assert len(pd.read_csv(out / "figure6.csv")) == 80 and len(pd.read_csv(out / "figure4.csv")) == 39
    page = (out / "index.html").read_text("utf-8")
    assert "kshot reproduce cifar100 --only figure6 figure4 --tasks 20" in page
    assert not (out / "figure2.csv").exists()
