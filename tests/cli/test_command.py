"""The command as a whole: help, version, and one sentence for what is the user's to mend."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
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


def test_the_demo_finds_out_before_its_minute_that_it_cannot_write(capsys, tmp_path: Path) -> None:
    (tmp_path / "report").touch()
    status, out, err = run(capsys, "demo", "--out", str(tmp_path / "report"))
    assert (status, out) == (2, "") and "is a file: give another one" in err


# A shell that starts the tests in the background lets them, and their children, ignore the signal.
READY_THEN_SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from kshot.cli import main
import kshot.photos.learning
def learn(*_, **__):
    print("ready", flush=True)
    time.sleep(60)
kshot.photos.learning.learn = learn
main(["learn", sys.argv[1]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_ctrl_c_ends_in_a_sentence(feeder: Path) -> None:
    command = [sys.executable, "-c", READY_THEN_SLOW, feeder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (130, "kshot: stopped; nothing half-written is left behind\n")
    assert [path.name for path in feeder.parent.iterdir()] == ["feeder"]


@pytest.mark.skipif(sys.platform == "win32", reason="a shell that closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&- >/dev/null", "<&- >&- 2>&-"])
def test_closed_streams_stop_nothing(feeder: Path, small_backbone: Path, closed: str) -> None:
    line = f'"{sys.executable}" -m kshot learn "{feeder}" --backbone "{small_backbone}" {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert feeder.with_name("feeder.kshot").exists()


def test_remarks_of_pillow_are_not_the_users(capsys, feeder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kshot.photos.learning

    def remark(*_, **__):
        warnings.warn_explicit(
            "Truncated File Read", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin"
        )
        raise kshot.errors.UserError("read")

    monkeypatch.setattr(kshot.photos.learning, "learn", remark)
    assert run(capsys, "learn", str(feeder)) == (2, "", "kshot: read\n")  # another warning is an error in these tests
