"""The command as a whole: help, version, and one sentence for what is the user's to mend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kshot
from kshot.cli import COMMANDS, main
from kshot.cli.paths import default_model


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; give its status, standard output and standard error."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out, captured.err


def test_help_names_every_command(capsys) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(capsys, command: str) -> None:
    status, out, _ = run(capsys, command, "--help")
    assert status == 0 and "--" in out


@pytest.mark.parametrize("arguments", [("demo",), ("reproduce", "cifar100", "--out", "x")])
def test_a_negative_seed_is_refused(capsys, arguments) -> None:
    status, _, err = run(capsys, *arguments, "--seed", "-1")
    assert status == 2 and "--seed" in err and "greater than or equal to 0" in err


def test_the_model_of_a_whole_disk_has_a_name() -> None:
    assert default_model(Path("/")) == Path("/model.kshot")
    assert default_model(Path("photos/feeder")) == Path("photos/feeder.kshot")


def test_version(capsys) -> None:
    assert run(capsys, "--version")[:2] == (0, f"kshot {kshot.__version__}\n")


def test_python_dash_m_is_the_same_command() -> None:
    result = subprocess.run([sys.executable, "-m", "kshot", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"kshot {kshot.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train", "--data", "nowhere", "--out", "{}/run"), "kshot: there is no folder nowhere"),
        (
            ("train", "--data", "nowhere", "--out", "{}/run", "--split", "mine"),
            "kshot: --split must be paper or cifar-fs",
        ),
        (("train", "--data", "nowhere", "--out", "{}/run", "--recipe", "vgg"), "kshot: there is no recipe 'vgg'"),
        (("train", "--data", "cifar100", "--out", "{}/run"), "kshot: set KSHOT_DATA to the folder"),
    ],
)
@pytest.mark.train
def test_a_mistake_is_one_sentence_with_status_2(capsys, tmp_path: Path, monkeypatch, arguments, sentence: str) -> None:
    monkeypatch.delenv("KSHOT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *(argument.format(tmp_path) for argument in arguments))
    assert status == 2 and out == ""
    assert err.startswith(sentence) and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_refused_with_status_2(capsys) -> None:
    status, _, err = run(capsys, "learm")
    assert status == 2 and "learm" in err


def test_a_missing_extra_is_named_with_its_remedy(capsys, tmp_path: Path, monkeypatch) -> None:
    for module in ("torch", "lightning_fabric"):
        monkeypatch.setitem(sys.modules, module, None)
    status, _, err = run(capsys, "train", "--data", "x", "--out", str(tmp_path))
    assert (status, err) == (2, 'kshot: training needs torch: pip install "kshot[train]"\n')
