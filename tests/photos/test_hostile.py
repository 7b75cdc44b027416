"""Whatever a folder, a photograph or a model file holds: one sentence, status 2, no half-written file, under 2 GB."""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import os
import pickle
import random
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from kshot.cli import main

spec = importlib.util.spec_from_file_location("hostile_models", Path(__file__).with_name("hostile_models.py"))
assert spec is not None and spec.loader is not None
hostile_models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hostile_models)

GIGABYTE = 10**9


class Said(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def kshot(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*arguments: object) -> Said:
        capsys.readouterr()
        try:
            main([os.fspath(argument) if isinstance(argument, Path) else str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code
            return Said(code if isinstance(code, int) else 0, *capsys.readouterr())
        raise AssertionError("main always exits")  # anything else that is raised would have been a traceback

    return run


def refused(said: Said, about: object = "") -> None:
    """Check that it was refused as it should be: status 2, and one line that begins with the program's name."""
    assert said.status == 2, (about, said)
    lines = said.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("kshot: ") and len(lines[0]) > 20, (about, said)
    assert "Traceback" not in said.err and lines[0].isprintable(), (about, said)


def unharmed(said: Said, about: object = "") -> None:
    """Check that it worked, or was refused as it should be."""
    if said.status == 0:
        assert not said.err, (about, said)
    else:
        refused(said, about)


def picture(seed: int, size: tuple[int, int] = (80, 60)) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(size)


@pytest.fixture(scope="module")
def feeder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "feeder"
    for label, name in enumerate(("dunnock", "sparrow")):
        (root / name).mkdir(parents=True)
        for number in range(3):
            picture(10 * label + number).save(root / name / f"{number}.jpg")
    return root


@pytest.fixture(scope="module")
def model(feeder: Path) -> Path:
    path = feeder.with_name("feeder.kshot")
    with pytest.raises(SystemExit):
        main(["learn", str(feeder), "-o", str(path)])
    return path


def fuzzed_pictures() -> Iterator[tuple[str, bytes]]:
    """Pictures of eight kinds: cut short, with changed bytes, and with more than belongs there."""
    rng = np.random.default_rng(1)
    for kind, suffix in (
        ("JPEG", "jpg"), ("PNG", "png"), ("GIF", "gif"), ("BMP", "bmp"), ("TIFF", "tif"), ("WEBP", "webp"),
        ("PPM", "ppm"), ("JPEG2000", "jp2"),
    ):  # fmt: skip
        written = io.BytesIO()
        picture(3).save(written, kind)
        content = written.getvalue()
        for part in (0.0, 0.02, 0.2, 0.6, 0.98):
            yield f"cut-{part}.{suffix}", content[: int(len(content) * part)]
        for number in range(10):
            changed = bytearray(content)
            limit = min(len(content), 60) if number < 5 else len(content)
            for place in rng.integers(0, limit, 4):
                changed[place] = rng.integers(0, 256)
            yield f"changed-{number}.{suffix}", bytes(changed)
        yield f"long.{suffix}", content + bytes(rng.integers(0, 256, 5000, dtype=np.uint8))
    yield "pickle.png", pickle.dumps({"a": 1})
    yield "zip.jpg", b"PK\x03\x04" + bytes(100)
    yield "text.webp", b"not a picture" * 100
    yield "phone.heic", struct.pack(">I", 24) + b"ftypheic" + bytes(200)
    yield "program.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n"


def test_fuzzed_photographs_are_answered_or_named(model: Path, tmp_path: Path, kshot: Callable[..., Said]) -> None:
    names = []
    for name, content in fuzzed_pictures():
        (tmp_path / name).write_bytes(content)
        names.append(name)
    assert len(names) > 130
    said = kshot("predict", model, tmp_path, "--json")
    assert said.status == 1
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert {Path(answer["image"]).name for answer in answers} == set(names)
    failed = [answer for answer in answers if "error" in answer]
    assert 40 < len(failed) < len(names)
    assert len(said.err.splitlines()) == len(failed)
    assert all(line.startswith("kshot: ") and "cannot be used" in line for line in said.err.splitlines())
    # Alone, a photograph that cannot be used is the whole answer.
    refused(kshot("predict", model, tmp_path / "cut-0.2.jpg"))
    refused(kshot("predict", model, tmp_path / "nowhere.jpg"))


def test_fuzzed_photographs_in_a_class_folder_are_named_and_the_rest_is_learned(
    tmp_path: Path, kshot: Callable[..., Said]
) -> None:
    for name, content in fuzzed_pictures():
        place = tmp_path / "f" / Path(name).suffix.removeprefix(".") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    said = kshot("learn", tmp_path / "f", "-o", tmp_path / "m.kshot")
    assert said.status == 0 and not said.err and "skipped" in said.out
    for path in (tmp_path / "f").rglob("*.*"):
        path.write_bytes(b"nothing to see")
    refused(kshot("learn", tmp_path / "f", "-o", tmp_path / "none.kshot"))
    assert not (tmp_path / "none.kshot").exists()


@pytest.mark.parametrize("what", ["damaged_bytes", "damaged_headers", "damaged_arrays"])
def test_damaged_models_are_refused_in_a_sentence(
    what: str, model: Path, tmp_path: Path, kshot: Callable[..., Said]
) -> None:
    whole = model.read_bytes()
    path = tmp_path / "hostile.kshot"
    count, worked = 0, 0
    for content in getattr(hostile_models, what)(whole):
        path.write_bytes(content)
        said = kshot("info", path)
        unharmed(said, (what, count))
        assert "\x1b" not in said.out
        count, worked = count + 1, worked + (said.status == 0)
    assert count >= 60 and worked < count / 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.kshot"]


def test_a_model_without_an_estimate_is_shown_without(model: Path, tmp_path: Path, kshot: Callable[..., Said]) -> None:
    path = tmp_path / "unjudged.kshot"
    path.write_bytes(hostile_models.unjudged(model.read_bytes()))
    said = kshot("info", path)
    assert said.status == 0 and "right" not in said.out
    assert json.loads(kshot("info", path, "--json").out)["estimate"] is None


def test_models_that_read_well_but_fit_nothing_are_refused_when_used(
    model: Path, feeder: Path, tmp_path: Path, kshot: Callable[..., Said]
) -> None:
    whole = model.read_bytes()
    photograph = feeder / "sparrow" / "0.jpg"
    arrays, own, data = hostile_models.taken_apart(whole)
    changes: list[dict[str, Any]] = [
        {"backbone": {**own["backbone"], "hash": "0" * 64}},
        {"backbone": {**own["backbone"], "source": "/dev/zero"}},
        {"backbone": {**own["backbone"], "source": str(tmp_path / "gone.safetensors")}},
        {"backbone": {**own["backbone"], "source": str(photograph)}},
        {"backbone": {**own["backbone"], "source": "x\n\x1b[2Jy"}},
        {"set_aside": [[row, "sparrow"] for row in range(1000)]},
        {"set_aside": [[10**9, "sparrow"], [-5, "dunnock"]]},
    ]
    contents = [hostile_models.put_together(arrays, {**own, **change}, data) for change in changes]
    contents += [hostile_models.narrow(whole, width) for width in (1, 7, 1281)]
    contents += [b"", b"x" * 100, pickle.dumps([1]), (Path(__file__)).read_bytes()]
    path = tmp_path / "hostile.kshot"
    for number, content in enumerate(contents):
        path.write_bytes(content)
        for command in (("predict", path, photograph), ("export", path, "-o", tmp_path / "m.onnx")):
            said = kshot(*command)
            if number in (5, 6) and said.status == 0:  # no old class left, or rows that are not there: it may work
                (tmp_path / "m.onnx").unlink(missing_ok=True)
                continue
            refused(said, (number, command[0]))
        assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.kshot"], number


def test_other_files_in_place_of_a_model_are_named(model: Path, tmp_path: Path, kshot: Callable[..., Said]) -> None:
    from kshot.backbones import names

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (names.bundled()["vgg-cifar100"], tmp_path, tmp_path / "pipe", tmp_path / "loop", Path("/dev/zero")):
        refused(kshot("info", path), path)
        refused(kshot("predict", path, "x.jpg"), path)
    refused(kshot("predict", model, Path("/dev/zero")))
    refused(kshot("predict", model, tmp_path / "pipe"))


ODD_NAMES = [
    "-o", "--help", "a\nb", "[bold]x[bold]", "%s %d {0} {x}", "\x1b[31mred\x1b[0m", "ls; rm", "a b", "CON", "naïve",
    "🐦‍⬛", "ا\u202eب", "\u200b", "a" * 250, "'\"\\", "=1+1", "$(x)", "NaN", "null", "雀", "\x7f", "x\ry",
]  # fmt: skip


def test_classes_and_photographs_of_any_name_are_learned_and_shown_harmlessly(
    tmp_path: Path, kshot: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "f"
    for label, name in enumerate(ODD_NAMES):
        (root / name).mkdir(parents=True)
        for number, file in enumerate((f"{name[:200]}.png", f"{label}.png")):
            picture(10 * label + number).save(root / name / file)
    monkeypatch.chdir(root)  # where a name that begins with a dash is one, and a pattern may fit
    path = tmp_path / "m.kshot"
    commands: list[tuple[object, ...]] = [
        ("learn", root, "-o", path),
        ("info", path),
        ("info", path, "--json"),
        ("predict", path, root),
        ("predict", path, "--json", "--", *ODD_NAMES),
        ("rename", path, "--", "-o", "o"),
        ("remove", path, "--", "--help"),
        ("export", path, "-o", tmp_path / "m.onnx"),
    ]
    for command in commands:
        said = kshot(*command)
        assert said.status == 0 and not said.err, (command[:2], said)
        assert said.out.replace("\n", "").isprintable(), (command[:2], said)


@pytest.mark.parametrize("name", [" ", "\t\n", "unsure", "something else"])
def test_names_that_no_class_can_have_are_refused(name: str, tmp_path: Path, kshot: Callable[..., Said]) -> None:
    for own in (name, "plain"):
        (tmp_path / "f" / own).mkdir(parents=True)
        picture(1).save(tmp_path / "f" / own / f"{own}.png")
    refused(kshot("learn", tmp_path / "f", "-o", tmp_path / "m.kshot"))
    assert not (tmp_path / "m.kshot").exists()


def test_bytes_that_are_no_letters_may_stand_in_names(tmp_path: Path, kshot: Callable[..., Said]) -> None:
    odd = os.fsdecode(b"caf\xe9")
    for own in (odd, "plain"):
        (tmp_path / odd / own).mkdir(parents=True)
        for number in range(2):
            picture(len(own) + number).save(tmp_path / odd / own / f"{odd}{number}.png")
    path = tmp_path / f"{odd}.kshot"
    for command in (("learn", tmp_path / odd, "-o", path), ("info", path), ("predict", path, tmp_path / odd, "--json")):
        said = kshot(*command)
        assert said.status == 0 and not said.err, said
    said.out.encode()


def test_links_in_circles_and_empty_folders(tmp_path: Path, kshot: Callable[..., Said]) -> None:
    root = tmp_path / "f"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "a" / "gone.jpg").symlink_to(tmp_path / "gone.jpg")
    refused(kshot("learn", root, "-o", tmp_path / "m.kshot"))
    refused(kshot("learn", tmp_path / "nowhere"))
    for number in range(2):
        picture(number).save(root / "a" / f"{number}.png")
    (root / "c").symlink_to(root / "a")
    said = kshot("learn", root, "-o", tmp_path / "m.kshot")
    unharmed(said)
    assert said.status == 0 and "in two classes" in said.out


def png_claiming(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def enormous(folder: Path) -> None:
    """Pictures of 100 megapixels and more, that are what they say, or only say so."""
    compressor = zlib.compressobj(1)
    strip = bytes([0]) + bytes([40, 90, 160, 200]) * 10_000
    rows = b"".join(compressor.compress(strip * 100) for _ in range(100)) + compressor.flush()
    for label in "ab":
        (folder / label).mkdir(parents=True)
        (folder / label / "real.png").write_bytes(png_claiming(10_000, 10_000, rows))
        (folder / label / "bomb.png").write_bytes(png_claiming(60_000, 60_000, rows))
        (folder / label / "wide.png").write_bytes(png_claiming(2**31 - 1, 1, rows))
        picture(ord(label)).save(folder / label / "small.jpg")
        rows += b"\0"  # another file, the same pixels
    Image.new("RGB", (10_000, 10_000), "teal").save(folder / "a" / "progressive.jpg", progressive=True)
    Image.new("RGB", (20_000, 6_000), "navy").save(folder / "b" / "large.jpg")


@pytest.mark.slow
def test_enormous_photographs_take_less_than_two_gigabytes(tmp_path: Path) -> None:
    enormous(tmp_path / "f")
    # Its own peak: what rusage says of a child begins with its parent's memory.
    program = (
        "import atexit, sys; from pathlib import Path; from kshot.cli import main; "
        "atexit.register(lambda: print(Path('/proc/self/status').read_text())); main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "learn", tmp_path / "f", "-o", tmp_path / "m.kshot"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "2 classes, 6 photographs" in said and "skipped 4" in said and "too large" in said
    (peak,) = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmHWM"))
    assert peak * 1024 < 2 * GIGABYTE


@pytest.mark.parametrize("kind", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_folder_that_cannot_be_written_to_is_named_and_the_old_file_stays(
    kind: int, model: Path, feeder: Path, tmp_path: Path, kshot: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.kshot"
    path.write_bytes(model.read_bytes())

    def refuse(*_: object, **__: object) -> None:  # root may write anywhere, so the system's answer is given for it
        raise OSError(kind, os.strerror(kind), str(path))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    commands: list[tuple[object, ...]] = [("rename", path, "sparrow", "spatz")]
    if kind == errno.EROFS:
        commands += [
            ("learn", feeder, "-o", path),
            ("add", path, feeder),
            ("remove", path, "sparrow"),
            ("export", path, "-o", tmp_path / "m.onnx"),
        ]
    for command in commands:
        refused(kshot(*command), command[0])
    assert path.read_bytes() == model.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.kshot"]


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(
    model: Path, feeder: Path, tmp_path: Path, kshot: Callable[..., Said]
) -> None:
    path = tmp_path / "old.kshot"
    path.write_bytes(model.read_bytes())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))  # a file that grows beyond this has no space
    try:
        outcomes = [
            kshot("learn", feeder, "-o", path),
            kshot("rename", path, "sparrow", "spatz"),
            kshot("export", path, "-o", tmp_path / "m.onnx"),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for said in outcomes:
        refused(said)
        assert "no space" in said.err
    assert path.read_bytes() == model.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.kshot"]


def test_what_is_no_ordinary_file_is_never_replaced(
    model: Path, feeder: Path, tmp_path: Path, kshot: Callable[..., Said]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (Path("/dev/null"), Path("/dev/full"), tmp_path / "pipe", tmp_path, tmp_path / "no" / "m.kshot"):
        before = target.stat().st_mode if target.exists() else None
        refused(kshot("learn", feeder, "-o", target), target)
        refused(kshot("export", model, "-o", target), target)
        assert (target.stat().st_mode if target.exists() else None) == before


WRITER = """
import sys
from kshot.photos.model import PhotoModel
model = PhotoModel.load(sys.argv[1])
print("ready", flush=True)
while True:
    model.save(sys.argv[2])
"""


def test_a_kill_at_any_moment_leaves_the_old_file_whole(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.kshot"
    path.write_bytes(b"old")
    random.seed(0)
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", WRITER, model, path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
        assert path.read_bytes() in (b"old", model.read_bytes())
    assert path.read_bytes() == model.read_bytes()
