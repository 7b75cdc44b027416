"""`kshot predict`: a table for people, JSON lines for programs, and what it does not import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kshot.cli import main, printing
from kshot.cli.answer_table import AnswerTable
from kshot.cli.predict import parse_shares
from kshot.concepts import Calibration, Temperature
from kshot.photos import learn
from kshot.photos.answers import Answer
from kshot.photos.fitting import Calibrations

Run = Callable[..., tuple[int, str, str]]
CURVE = Temperature((1, 5, 10), (3.0, 2.0, 1.5))
CALIBRATIONS = Calibrations(Calibration(10.0, CURVE), Calibration(100.0, CURVE, setting="joint"), "base images")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], feeder: Path, small_backbone: Path, monkeypatch) -> Run:
    """Learn feeder.kshot, and run the command beside it."""
    monkeypatch.chdir(feeder.parent)
    learn("feeder", backbone=small_backbone, calibrations=CALIBRATIONS).model.save("feeder.kshot")

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["predict", *arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


def test_a_line_for_each_photograph_with_a_bar(run: Run) -> None:
    status, out, err = run("feeder.kshot", "feeder/robin", "feeder/sparrow/0.png")
    assert (status, err) == (0, "") and "\x1b" not in out
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["feeder/robin/0.png", "feeder/robin/1.png", "feeder/sparrow/0.png"]
    assert all("█" in line and "%" in line for line in lines)
    # The columns stand under each other.
    assert len({line.index("█") for line in lines}) == 1


def test_json_lines_add_up(run: Run) -> None:
    status, out, _ = run("feeder.kshot", "feeder", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and len(records) == 9
    for record in records:
        assert sum(record["probabilities"].values()) + record["something_else"] == pytest.approx(1, abs=1e-4)
        everything = {**record["probabilities"], "something else": record["something_else"]}
        best = max(everything, key=everything.__getitem__)
        assert record["probability"] == everything[best]
        assert record["answer"] == (best if everything[best] >= 0.5 else "unsure")
    closed = [json.loads(line) for line in run("feeder.kshot", "feeder", "--json", "--closed")[1].splitlines()]
    assert all(sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-5) for record in closed)


def test_top_shows_so_many(run: Run) -> None:
    _, out, _ = run("feeder.kshot", "feeder/robin/0.png", "--json", "--top", "1")
    assert len(json.loads(out)["probabilities"]) == 1
    _, out, _ = run("feeder.kshot", "feeder/robin/0.png", "--top", "4")
    assert all(name in out for name in ("robin", "sparrow", "dunnock", "something else"))


def test_thresholds_make_unsure(run: Run) -> None:
    _, out, _ = run("feeder.kshot", "feeder", "--json", "--threshold", "1")
    assert {json.loads(line)["answer"] for line in out.splitlines()} == {"unsure"}
    _, out, _ = run("feeder.kshot", "feeder", "--json", "--threshold", "0")
    assert "unsure" not in {json.loads(line)["answer"] for line in out.splitlines()}
    _, out, _ = run("feeder.kshot", "feeder", "--json", "--max-error", "0.05")
    records = [json.loads(line) for line in out.splitlines()]
    answered = [record["probability"] for record in records if record["answer"] != "unsure"]
    assert 1 - np.mean(answered) <= 0.05
    left = [record["probability"] for record in records if record["answer"] == "unsure"]
    # One more answer would be one too many.
    assert not left or 1 - np.mean([*answered, max(left)]) > 0.05


def test_class_priors_move_probabilities_as_bayes_says(run: Run) -> None:
    plain = json.loads(run("feeder.kshot", "feeder/robin/0.png", "--json", "--closed")[1])["probabilities"]
    option = "robin=0.1,sparrow=0.8"
    moved = json.loads(run("feeder.kshot", "feeder/robin/0.png", "--json", "--closed", "--class-prior", option)[1])
    weighted = {name: plain[name] * share for name, share in {"robin": 0.1, "sparrow": 0.8, "dunnock": 0.1}.items()}
    for name, value in moved["probabilities"].items():
        assert value == pytest.approx(weighted[name] / sum(weighted.values()), abs=2e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--class-prior", "robbin=0.5"), "there is no class robbin. Did you mean robin?"),
        (("--class-prior", "robin"), "--class-prior must be NAME=SHARE,..."),
        (("--class-prior", "robin=0.2,robin=0.3"), "--class-prior gives robin two shares: give one"),
        (("--class-prior", "robin=2"), "--class-prior must be NAME=SHARE,..."),
        (("--class-prior", "robin=0.9,sparrow=0.8"), "add up to 1.7"),
        (("--threshold", "0.5", "--max-error", "0.1"), "give one of them"),
        (("--backbone", "vgg-cifar100"), "is not the backbone that this model was learned with"),
    ],
)
def test_impossible_options_are_a_sentence(run: Run, arguments, sentence: str) -> None:
    status, out, err = run("feeder.kshot", "feeder/robin/0.png", *arguments)
    assert (status, out) == (2, "") and sentence in err and err.count("\n") == 1


def test_a_broken_photograph_among_others_is_named_and_the_others_answered(run: Run, feeder: Path) -> None:
    (feeder / "robin" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    status, out, err = run("feeder.kshot", "feeder/robin", "nowhere.jpg", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and [set(record) & {"answer", "error"} for record in records] == [
        {"answer"},
        {"error"},
        {"error"},
    ]
    assert err.startswith("kshot: feeder/robin/1.png cannot be used: damaged") and "nowhere.jpg" in err
    assert run("feeder.kshot", "nowhere.jpg")[::2] == (2, "kshot: nowhere.jpg cannot be used: it is not there\n")


def test_paths_come_from_standard_input_and_patterns_are_expanded(run: Run, monkeypatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"feeder/robin/0.png\r\n\nfeeder/sparrow\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    _, out, _ = run("feeder.kshot", "-", "--json")
    assert len(out.splitlines()) == 5
    assert len(run("feeder.kshot", "feeder/*/0.png", "--json")[1].splitlines()) == 3
    assert len(run("feeder.kshot", "feeder/*o*", "--json")[1].splitlines()) == 9  # folders that fit are entered
    assert "no file fits" in run("feeder.kshot", "feeder/*/x.png")[2]


def test_one_bad_argument_or_line_stops_no_other_answer(run: Run, feeder: Path, monkeypatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"feeder/[a]*.png\n" + b"x" * 3000 + b".png\nfeeder/robin/0.png\n")

    Path("empty").mkdir()
    monkeypatch.setattr(sys, "stdin", Stdin)
    status, out, err = run("feeder.kshot", "-", "empty", "none/*.png", "feeder/robin/1.png", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and {record["image"][:20]: record.get("error") for record in records} == {
        "empty/": "there are no photographs in it",
        "none/*.png": "no file fits this pattern",
        "feeder/[a]*.png": "it is not there",  # a line is a path, not a pattern
        "x" * 20: "it cannot be opened (File name too long)",
        "feeder/robin/0.png": None,
        "feeder/robin/1.png": None,
    }
    assert len(err.splitlines()) == 4 and all(" cannot be used: " in line for line in err.splitlines())
    assert run("feeder.kshot", "empty")[::2] == (2, "kshot: empty/ cannot be used: there are no photographs in it\n")


def test_what_a_folder_holds_beside_photographs_is_named_or_counted(run: Run, feeder: Path, monkeypatch) -> None:
    robins = feeder / "robin"
    (robins / "gone.png").symlink_to("nowhere.png")
    (robins / "notes.txt").write_text("two eggs")
    (robins / "IMG_0412").write_bytes((robins / "0.png").read_bytes())
    (robins / "closed").mkdir()
    listed = Path.iterdir

    def refuse(path: Path):  # root may open any folder, so the system's answer is given for it
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    status, out, err = run("feeder.kshot", "feeder/robin")
    assert status == 1 and len(out.splitlines()) == 2
    assert err.splitlines() == [
        "kshot: feeder/robin/closed cannot be used: it cannot be opened (Permission denied)",
        "kshot: feeder/robin/gone.png cannot be used: a link to nothing",
        "kshot: passed over 2 files not named as images",
    ]


def test_a_pipe_is_refused_in_plain_words(run: Run) -> None:
    os.mkfifo("pipe.jpg")
    assert run("feeder.kshot", "pipe.jpg")[::2] == (2, "kshot: pipe.jpg cannot be used: not a file\n")


def test_a_class_that_ends_in_a_space_has_a_share_too(feeder: Path, small_backbone: Path) -> None:
    (feeder / "robin").rename(feeder / "robin ")
    model = learn(feeder, backbone=small_backbone, calibrations=CALIBRATIONS).model
    assert parse_shares(["robin =0.5, sparrow =0.2"], model) == {"robin ": 0.5, "sparrow": 0.2}


def test_one_class_cannot_be_closed(run: Run, feeder: Path, small_backbone: Path, paint_class) -> None:
    paint_class(Path("cats/cat"), 5, 3)
    learn("cats", backbone=small_backbone, calibrations=CALIBRATIONS).model.save("cats.kshot")
    status, _, err = run("cats.kshot", "cats/cat/0.png", "--closed")
    assert (status, err) == (
        2,
        "kshot: cats.kshot knows one class only (cat), so --closed leaves nothing to choose from. "
        "Leave --closed out, or add a class: kshot add cats.kshot FOLDER\n",
    )
    assert run("cats.kshot", "cats/cat/0.png")[0] == 0


def test_predict_imports_nothing_that_it_does_not_need(run: Run, feeder: Path) -> None:
    heavy = ["sklearn", "scipy", "pandas", "matplotlib", "torch", "jax", "onnx"]
    code = (
        "import sys; from kshot.cli import main\n"
        "try: main(['predict', 'feeder.kshot', 'feeder/robin/0.png', '--class-prior', 'robin=0.5'])\n"
        f"except SystemExit as stopped: print([name for name in {heavy} if name in sys.modules], stopped.code)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[] 0"


def test_learn_imports_neither_scikit_learn_nor_the_extras(run: Run, feeder: Path, small_backbone: Path) -> None:
    heavy = ["sklearn", "pandas", "matplotlib", "torch", "jax", "onnx"]
    code = (
        "import sys; from kshot.cli import main\n"
        f"try: main(['learn', 'feeder', '--backbone', {str(small_backbone)!r}])\n"
        f"except SystemExit as stopped: print([name for name in {heavy} if name in sys.modules], stopped.code)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[] 0"


def answer(kind, *ranking: tuple[str | None, float], like: str | None = None) -> Answer:
    other = next((p for name, p in ranking if name is None), 0.0)
    return Answer(kind, ranking[0][1], ranking, other, like)


def test_the_table_reads_as_promised() -> None:
    names = [f"today/{number}.jpg" for number in range(1, 5)]
    table = AnswerTable(names, ["sparrow", "dunnock"])
    said = [
        answer("class", ("sparrow", 0.97), (None, 0.02), ("dunnock", 0.01)),
        answer("class", ("dunnock", 0.58), ("sparrow", 0.39), (None, 0.03)),
        answer("something else", (None, 0.96), ("sparrow", 0.04), ("dunnock", 0.0), like="grey squirrel"),
        answer("unsure", ("sparrow", 0.46), ("dunnock", 0.41), (None, 0.13)),
    ]
    assert [table.line(name, one) for name, one in zip(names, said, strict=True)] == [
        "today/1.jpg   sparrow          ███████████████████▍    97 %",
        "today/2.jpg   dunnock          ███████████▋            58 %   sparrow 39 %",
        "today/3.jpg   something else   ███████████████████▎    96 %   most like: grey squirrel",
        "today/4.jpg   unsure           █████████▎             sparrow 46 %, dunnock 41 %",
    ]


@pytest.mark.parametrize("room", [40, 60, 80, 100])
def test_a_narrow_terminal_cuts_names_and_not_answers(monkeypatch, room: int) -> None:
    monkeypatch.setattr("kshot.cli.answer_table.terminal_width", lambda: room)
    name = "holiday/2026/november/a very long name of a photograph.jpg"
    line = AnswerTable([name], ["雀雀雀", "dunnock"]).line(name, answer("class", ("雀雀雀", 0.97), (None, 0.03)))
    assert "雀雀雀" in line and "97 %" in line and printing.width(line) <= max(room, 50)


def test_a_terminal_that_cannot_show_blocks_gets_number_signs(monkeypatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert printing.bar(0.5, 10) == "#####"
    printing.say("Zaunkönig " + printing.bar(1.0, 3) + os.fsdecode(b"\xe9"))
    out.flush()
    assert out.buffer.getvalue() == b"Zaunk?nig ####?\n".replace(b"####", b"###")  # type: ignore[attr-defined]
