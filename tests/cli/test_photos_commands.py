"""`kshot learn`, `add`, `remove`, `rename`, `info`: what is printed, and what is left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kshot.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a folder of its own; give status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


def test_learn_says_what_it_found_what_it_skipped_and_what_to_expect(
    run: Run, feeder: Path, small_backbone: Path
) -> None:
    (feeder / "sparrow" / "notes.txt").write_text("two eggs")
    whole = (feeder / "robin" / "0.png").read_bytes()
    (feeder / "robin" / "IMG_0412.png").write_bytes(whole[: len(whole) // 2])
    (feeder / ".DS_Store").write_bytes(b"\0")
    status, out, err = run("learn", "feeder/", "--backbone", small_backbone)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "feeder/   3 classes, 9 photographs"
    assert lines[1].split() == ["sparrow", "4", "dunnock", "3", "robin", "2"]
    assert (
        lines[2]
        == "  skipped 2: sparrow/notes.txt (not named as an image), robin/IMG_0412.png (damaged: ends too early)"
    )
    assert any(line.startswith("learned in ") and "→ feeder.kshot (0.0 MB)" in line for line in lines)
    assert any("right " in line and "of 9 (about " in line and "likely between" in line for line in lines)
    assert any(line.startswith("  most alike: ") for line in lines)
    assert lines[-1] == "Try it: kshot predict feeder.kshot PHOTO..."
    assert "\x1b" not in out


def test_everything_that_was_passed_over_is_named_with_its_folder(run: Run, feeder: Path, small_backbone: Path) -> None:
    (feeder / "robin" / "deep").mkdir()
    for number in range(7):
        (feeder / "robin" / "deep" / f"{number}.txt").touch()
        shutil.copy(feeder / "robin" / "0.png", feeder / "sparrow" / f"robin{number}.png")
    lines = run("learn", "feeder", "--backbone", small_backbone)[1].splitlines()
    start = lines.index("  skipped 13:")
    assert lines[start + 1] == "    robin/deep/0.txt (not named as an image)"
    assert lines[start + 8].startswith("    sparrow/robin1.png (the same photograph as ")
    assert lines[start + 13].startswith("    sparrow/robin6.png (the same photograph as ")


def test_a_misspelled_folder_is_guessed(run: Run, feeder: Path, tmp_path: Path) -> None:
    assert run("learn", "feedr/")[::2] == (2, "kshot: there is no folder feedr/. Did you mean feeder/?\n")
    assert not list(tmp_path.glob("*.kshot"))


def test_a_misspelled_model_is_guessed(run: Run, feeder: Path, tmp_path: Path) -> None:
    (tmp_path / "feeder.kshot").write_bytes(b"")
    assert run("info", "feder.kshot")[::2] == (2, "kshot: there is no file feder.kshot. Did you mean feeder.kshot?\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("learn", "feeder", "-o", "no/m.kshot"), "-o no/m.kshot cannot be written: there is no folder no"),
        (("learn", "feeder", "-o", "feeder"), "-o feeder is a folder"),
        (("learn", "feeder/robin/0.png"), "is a file"),
        (("learn", "feeder/robin"), "has no subfolder with images in it"),
        (("learn", "feeder", "--backbone", "efficientnet"), "there is no backbone efficientnet"),
        (("learn", "feeder", "--device", "abacus"), "there is no device 'abacus'"),
        (("learn", "feeder", "--preprocessing", "odd"), "--preprocessing odd is neither a file nor one of"),
        (("info", "feeder"), "is a folder, and the file of a model is needed"),
        (("info", "feeder/robin/0.png"), "is not a kshot file"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(
    run: Run, feeder: Path, tmp_path: Path, arguments, sentence: str
) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "") and err.startswith("kshot: ") and sentence in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["feeder"]


def test_nothing_readable_is_a_sentence(run: Run, feeder: Path, small_backbone: Path) -> None:
    for path in feeder.rglob("*.png"):
        path.write_bytes(b"\x89PNG\r\n\x1a\n")
    status, _, err = run("learn", "feeder", "--backbone", small_backbone)
    assert status == 2 and "not one photograph in feeder can be read" in err


def test_add_remove_and_rename_change_the_file_and_info_shows_it(
    run: Run, feeder: Path, small_backbone: Path, paint_class
) -> None:
    run("learn", "feeder", "--backbone", small_backbone)
    paint_class(feeder.parent / "more" / "wren", 9, 3)
    paint_class(feeder.parent / "more" / "robin", 2, 2, first=2)
    shutil.copy(feeder / "robin" / "0.png", feeder.parent / "more" / "robin")
    status, out, err = run("add", "feeder.kshot", "more")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "more/   2 classes, 5 photographs" and "robin/0.png (already learned)" in out
    assert run("rename", "feeder.kshot", "wren", "[bold]-Zaunkönig[/bold]")[0] == 0
    assert run("remove", "feeder.kshot", "sparrow")[0] == 0
    status, out, _ = run("info", "feeder.kshot")
    assert status == 0 and out.startswith("feeder.kshot   3 classes, 10 photographs\n")
    assert "[bold]-Zaunkönig[/bold]   3" in out and "sparrow" not in out and "backbone: small (12 features" in out
    values = json.loads(run("info", "feeder.kshot", "--json")[1])
    assert values["classes"] == {"[bold]-Zaunkönig[/bold]": 3, "dunnock": 3, "robin": 4}
    assert values["estimate"]["judged"] == 10 and values["format"] == 1


def test_a_change_that_fails_leaves_the_model_as_it_was(run: Run, feeder: Path, small_backbone: Path) -> None:
    run("learn", "feeder", "--backbone", small_backbone)
    before = Path("feeder.kshot").read_bytes()
    for arguments, sentence in {
        ("remove", "feeder.kshot", "robbin"): "there is no class robbin. Did you mean robin?",
        ("rename", "feeder.kshot", "robin", "sparrow"): "there is a class of that name already",
        ("rename", "feeder.kshot", "robin", "unsure"): "a class cannot be called 'unsure'",
        ("add", "feeder.kshot", "feeder"): "feeder brings nothing new",
        ("add", "feeder.kshot", "fedr"): "there is no folder fedr/",
    }.items():
        status, _, err = run(*arguments)
        assert status == 2 and sentence in err and err.count("\n") == 1
    assert Path("feeder.kshot").read_bytes() == before


def test_names_that_begin_with_a_dash_or_would_move_the_cursor_are_only_names(
    run: Run, feeder: Path, small_backbone: Path, paint_class
) -> None:
    paint_class(feeder / "-o", 11, 2)
    paint_class(feeder / "\x1b[2Jwren", 12, 2)
    status, out, err = run("learn", "feeder", "--backbone", small_backbone)
    assert (status, err) == (0, "") and "\x1b" not in out and "\\x1b[2Jwren   2" in out
    assert run("remove", "feeder.kshot", "--", "-o")[0] == 0


def test_profile_says_where_the_time_went(run: Run, feeder: Path, small_backbone: Path) -> None:
    _, _, err = run("learn", "feeder", "--backbone", small_backbone, "--profile")
    phases = [line.rsplit(maxsplit=2)[0].strip() for line in err.splitlines()]
    assert phases[-1] == "in all" and {"reading photographs", "learning", "writing the model"} <= set(phases)
    seconds = [float(line.split()[-2]) for line in err.splitlines()]
    assert sum(seconds[:-1]) == pytest.approx(seconds[-1], abs=0.01)


def test_what_is_read_is_not_written_over(run: Run, feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    shutil.copy(small_backbone, tmp_path / "net.safetensors")
    assert run("learn", "feeder", "--backbone", "net.safetensors")[0] == 0
    for command in (
        ("export", "feeder.kshot", "-o", "feeder.kshot"),
        ("export", "feeder.kshot", "-o", "net.safetensors"),
        ("learn", "feeder", "-o", "net.safetensors", "--backbone", "net.safetensors"),
    ):
        before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
        status, _, err = run(*command)
        assert status == 2 and "is the file that is read: give the result another name" in err
        assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}


@pytest.mark.parametrize(
    ("command", "function"),
    [(("add", "feeder.kshot", "more"), "add"), (("remove", "feeder.kshot", "sparrow"), "remove"),
     (("rename", "feeder.kshot", "robin", "redbreast"), "rename")],
)  # fmt: skip
def test_a_change_by_another_program_meanwhile_is_not_lost(
    run: Run, feeder: Path, small_backbone: Path, paint_class, monkeypatch: pytest.MonkeyPatch, command, function: str
) -> None:
    from kshot.photos import PhotoModel, learning

    run("learn", "feeder", "--backbone", small_backbone)
    paint_class(feeder.parent / "more" / "wren", 9, 3)
    own, rename = getattr(learning, function), learning.rename

    def interrupted(*arguments, **options):
        rename(PhotoModel.load("feeder.kshot"), "dunnock", "hedge sparrow").save("feeder.kshot")
        return own(*arguments, **options)

    monkeypatch.setattr(learning, function, interrupted)
    status, out, err = run(*command)
    assert (status, out) == (2, "")
    assert err == "kshot: feeder.kshot was changed by another program meanwhile: run the command again\n"
    assert PhotoModel.load("feeder.kshot").classes == ("hedge sparrow", "robin", "sparrow")


@pytest.mark.parametrize("target", ["feeder/robin/0.png", "notes.txt", "features.safetensors"])
def test_what_is_not_a_model_is_not_replaced_by_one(
    run: Run, feeder: Path, small_backbone: Path, tmp_path: Path, target: str
) -> None:
    import numpy as np

    import kshot

    (tmp_path / "notes.txt").write_text("two eggs")
    kshot.Features(np.eye(2, dtype=np.float32), np.arange(2)).save(tmp_path / "features.safetensors")
    before = (tmp_path / target).read_bytes()
    status, out, err = run("learn", "feeder", "-o", target, "--backbone", small_backbone)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"kshot: -o {target} is there already and is not a model of kshot, so it is not replaced")
    assert (tmp_path / target).read_bytes() == before


def test_only_its_own_exports_are_replaced(run: Run, feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    run("learn", "feeder", "--backbone", small_backbone)
    assert run("export", "feeder.kshot", "-o", "m.onnx")[0] == 0
    assert run("export", "feeder.kshot", "-o", "m.onnx")[0] == 0
    (tmp_path / "mine.onnx").write_bytes(b"\x08\x08\x12\x07pytorch")
    status, _, err = run("export", "feeder.kshot", "-o", "mine.onnx")
    assert status == 2 and "is not an ONNX file of kshot, so it is not replaced" in err
    (tmp_path / "empty.onnx").touch()  # holds nothing that could be lost
    assert run("export", "feeder.kshot", "-o", "empty.onnx")[0] == 0


def test_learning_again_loses_no_class_and_says_what_it_replaced(
    run: Run, feeder: Path, small_backbone: Path, paint_class
) -> None:
    again = ("learn", "feeder", "--backbone", small_backbone)
    assert "replaced" not in run(*again)[1]
    paint_class(feeder.parent / "more" / "robin", 2, 2, first=2)
    run("add", "feeder.kshot", "more")
    lines = run(*again)[1].splitlines()
    assert (
        "replaced a model of 3 classes, 11 photographs; 2 of them not in feeder and so forgotten (kshot add keeps them)"
        in lines
    )
    assert "replaced a model of 3 classes, 9 photographs" in run(*again)[1].splitlines()
    run("rename", "feeder.kshot", "robin", "redbreast")
    before = Path("feeder.kshot").read_bytes()
    status, out, err = run(*again)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "knows classes that feeder lacks (redbreast): kshot add feeder.kshot feeder keeps them" in err
    assert Path("feeder.kshot").read_bytes() == before


def test_a_write_protected_model_is_not_replaced(
    run: Run, feeder: Path, small_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("learn", "feeder", "--backbone", small_backbone)
    # Root may write anything, so the system's answer is given for it.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).is_dir())
    for command in (("learn", "feeder", "--backbone", small_backbone), ("rename", "feeder.kshot", "robin", "x")):
        status, _, err = run(*command)
        assert status == 2 and "feeder.kshot cannot be replaced: it is write-protected" in err


def test_a_read_only_folder_is_named_with_a_way_out_that_the_command_has(
    run: Run, feeder: Path, small_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("learn", "feeder", "--backbone", small_backbone)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "is read-only for you. Choose another place by -o\n" in run("learn", "feeder")[2]
    assert "is read-only for you. Copy it to a folder of your own\n" in run("remove", "feeder.kshot", "robin")[2]


def test_a_link_to_itself_is_no_place_for_a_result(run: Run, feeder: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    status, _, err = run("learn", "feeder", "-o", "loop")
    assert status == 2 and err == "kshot: loop is a link that leads back to itself: give the name of a file\n"


def test_a_file_that_may_not_be_read_is_not_said_to_be_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed.kshot").write_bytes(b"x")
    opened = Path.open

    def refuse(path: Path, *arguments, **options):  # root may read any file, so the system's answer is given for it
        if path.name == "closed.kshot":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert run("info", "closed.kshot")[::2] == (2, "kshot: closed.kshot: Permission denied\n")
