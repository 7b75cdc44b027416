"""Any photograph is read upright in RGB, and what cannot be read is named with its reason."""

from __future__ import annotations

import io
import os
import pickle
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from kshot.datasets import photographs
from kshot.datasets.budget import Budget
from kshot.datasets.photographs import PhotographError, read_photograph, shorter_side_crop, to_rgb

ORIENTATION = 0x0112
RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 30), (30, 30, 210), (250, 250, 250)


def quarters(width: int = 64, height: int = 48) -> Image.Image:
    """Four coloured quarters: red and green above, blue and white below."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    image.paste(WHITE, (width // 2, height // 2, width, height))
    return image


def corners(image: Image.Image) -> list[tuple[int, ...]]:
    width, height = image.size
    places = [(x, y) for y in (height // 4, 3 * height // 4) for x in (width // 4, 3 * width // 4)]
    return [image.getpixel(place) for place in places]  # type: ignore[misc]


def close(found: list[tuple[int, ...]], expected: list[tuple[int, ...]], tolerance: int = 12) -> bool:
    return bool(np.abs(np.array(found) - np.array(expected)).max() <= tolerance)


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)  # type: ignore[arg-type]
    return path


# As stored in the file, so that turning by the orientation gives `quarters()` back.
TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", TURNS)
@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "tiff"])
def test_a_photograph_stands_upright_whatever_way_the_camera_was_held(
    tmp_path: Path, orientation: int, extension: str
) -> None:
    turn = TURNS[orientation]
    stored = quarters(640, 480) if turn is None else quarters(640, 480).transpose(turn)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path = saved(stored, tmp_path / f"turned.{extension}", exif=exif, quality=95)
    for shorter_side in (None, 100):
        image = read_photograph(path, shorter_side=shorter_side)
        assert close(corners(image), [RED, GREEN, BLUE, WHITE])
        assert image.width > image.height
        # Read once more, as `Backbone.features` does with a picture that a user read here: no second turn.
        assert to_rgb(image).size == image.size


def test_grey_palette_cmyk_and_bilevel_pictures_become_rgb(tmp_path: Path) -> None:
    grey = read_photograph(saved(quarters().convert("L"), tmp_path / "grey.jpg"))
    assert grey.mode == "RGB" and len(set(grey.getpixel((3, 3)))) == 1
    palette = read_photograph(saved(quarters().quantize(8), tmp_path / "palette.png"))
    assert close(corners(palette), [RED, GREEN, BLUE, WHITE])
    cmyk = read_photograph(saved(quarters().convert("CMYK"), tmp_path / "cmyk.jpg", quality=95))
    assert close(corners(cmyk), [RED, GREEN, BLUE, WHITE])
    bilevel = read_photograph(saved(quarters().convert("1"), tmp_path / "bilevel.png"))
    assert bilevel.mode == "RGB"


def test_sixteen_bits_keep_their_upper_eight(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 64 * 48).astype(np.uint16).reshape(48, 64)
    for name in ("deep.png", "deep.tiff"):
        found = np.asarray(read_photograph(saved(Image.fromarray(ramp), tmp_path / name)))
        np.testing.assert_array_equal(found[..., 0], ramp >> 8)
    # A PGM of 16 bits comes as 32-bit integers.
    (tmp_path / "deep.pgm").write_bytes(b"P5 64 48 65535\n" + ramp.astype(">u2").tobytes())
    found = np.asarray(read_photograph(tmp_path / "deep.pgm")).astype(int)
    assert np.abs(found[..., 1] - ramp / 257).max() <= 0.5


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 255.0), (-3.0, 9.0), (0.0, 4000.0)])
def test_floating_point_grey_levels_fill_the_scale_they_are_on(tmp_path: Path, low: float, high: float) -> None:
    ramp = np.linspace(low, high, 256, dtype=np.float32).reshape(16, 16)
    found = np.asarray(read_photograph(saved(Image.fromarray(ramp), tmp_path / "float.tiff")))
    np.testing.assert_array_equal(found[..., 0].ravel(), np.arange(256))


def test_a_constant_or_undefined_floating_point_picture_is_still_a_picture(tmp_path: Path) -> None:
    for value in (-5.0, np.nan, np.inf):
        flat = np.full((8, 8), value, np.float32)
        assert read_photograph(saved(Image.fromarray(flat), tmp_path / "flat.tiff")).getpixel((0, 0)) == (0, 0, 0)


def test_what_is_transparent_becomes_white(tmp_path: Path) -> None:
    half = quarters().convert("RGBA")
    half.paste((10, 10, 10, 0), (0, 0, 32, 24))
    assert close(corners(read_photograph(saved(half, tmp_path / "alpha.png"))), [(255,) * 3, GREEN, BLUE, WHITE])
    assert close(
        corners(read_photograph(saved(half, tmp_path / "alpha.webp", lossless=True))), [(255,) * 3, GREEN, BLUE, WHITE]
    )
    grey = Image.new("LA", (8, 8), (0, 0))
    assert read_photograph(saved(grey, tmp_path / "la.png")).getpixel((4, 4)) == (255, 255, 255)
    keyed = Image.new("RGB", (8, 8), (1, 2, 3))
    assert read_photograph(saved(keyed, tmp_path / "key.png", transparency=(1, 2, 3))).getpixel((4, 4)) == (255,) * 3
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    assert read_photograph(saved(palette, tmp_path / "p.gif", transparency=1)).getpixel((4, 4)) == (255,) * 3


@pytest.mark.parametrize("name", ["film.gif", "film.webp", "film.png"])
def test_of_an_animation_the_first_frame_is_read(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in (GREEN, RED, BLUE)]
    path = saved(frames[0], tmp_path / name, save_all=True, append_images=frames[1:], duration=50, lossless=True)
    assert close([read_photograph(path).getpixel((5, 5))], [GREEN])  # type: ignore[list-item]


def test_the_smallest_picture_is_read(tmp_path: Path) -> None:
    for name in ("dot.png", "dot.jpg", "dot.gif", "dot.bmp"):
        image = read_photograph(saved(Image.new("RGB", (1, 1), RED), tmp_path / name), shorter_side=256)
        assert image.size == (1, 1) and image.mode == "RGB"


@pytest.mark.parametrize("name", ["p.jpg", "p.png", "p.gif", "p.bmp", "p.tiff", "p.webp", "p.ppm", "p.jp2"])
def test_a_file_is_known_by_its_content_and_not_by_its_name(tmp_path: Path, name: str) -> None:
    path = saved(quarters(), tmp_path / name)
    other = path.rename(tmp_path / "wrong.jpeg")
    assert close(corners(read_photograph(other)), [RED, GREEN, BLUE, WHITE], tolerance=40)
    with other.open("rb") as opened:
        assert read_photograph(opened).size == (64, 48)
    assert read_photograph(io.BytesIO(other.read_bytes())).size == (64, 48)


def test_decoding_at_reduced_size_gives_nearly_the_same_crop(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
    path = saved(coarse.resize((2400, 1800), Image.Resampling.BICUBIC), tmp_path / "large.jpg", quality=92)
    reduced, full = read_photograph(path, shorter_side=256), read_photograph(path)
    assert reduced.size == (1200, 900) and full.size == (2400, 1800)
    crops = [np.asarray(shorter_side_crop(image, 224, resize=256)).astype(float) for image in (reduced, full)]
    assert np.abs(crops[0] - crops[1]).mean() < 0.5


def test_damaged_photographs_are_named_as_such(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    noise = Image.fromarray(rng.integers(0, 256, (200, 200, 3), dtype=np.uint8))
    for extension in ("jpg", "png", "gif", "bmp", "webp", "tiff", "jp2", "ppm"):
        whole = saved(noise, tmp_path / f"whole.{extension}").read_bytes()
        for part in (0.95, 0.5, 0.1):
            path = tmp_path / f"IMG_0412.{extension}"
            path.write_bytes(whole[: int(len(whole) * part)])
            with pytest.raises(PhotographError) as caught:
                read_photograph(path, shorter_side=50)
            assert caught.value.reason.startswith("damaged: "), extension
            assert str(path) in str(caught.value)
            if extension in ("jpg", "png", "gif", "bmp", "ppm"):
                assert caught.value.reason == "damaged: ends too early"
    header_only = tmp_path / "header.jpg"
    header_only.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    with pytest.raises(PhotographError, match="damaged"):
        read_photograph(header_only)


def test_what_is_no_photograph_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "notes.jpg").write_text("buy seed for the feeder")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "program.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")
    for name, reason in (
        ("notes.jpg", "not an image"),
        ("empty.png", "an empty file"),
        ("program.jpg", "not an image"),
    ):
        with pytest.raises(PhotographError) as caught:
            read_photograph(tmp_path / name)
        assert caught.value.reason == reason
        assert caught.value.path == tmp_path / name
    with pytest.raises(PhotographError, match="folder"):
        read_photograph(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_photograph(tmp_path / "missing.jpg")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_photograph_without_permission_is_named(tmp_path: Path) -> None:
    path = saved(quarters(), tmp_path / "mine.jpg")
    path.chmod(0)
    with pytest.raises(PhotographError, match="Permission denied"):
        read_photograph(path)


def test_an_error_survives_the_way_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(PhotographError("a.jpg", "not an image")))
    assert (error.reason, str(error)) == ("not an image", "a.jpg cannot be used: not an image")


def png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 1_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png_claiming(60_000, 60_000))
    with pytest.raises(PhotographError, match="too large: 60000 × 60000 pixels, and at most 100 megapixels"):
        read_photograph(bomb)


def test_limits_hold_for_each_kind_and_large_jpegs_are_shrunk_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photographs, "MAX_PIXELS", 10_000)
    monkeypatch.setattr(photographs, "MAX_JPEG_PIXELS", 100_000)
    picture = quarters(400, 200)
    assert read_photograph(saved(picture, tmp_path / "a.jpg")).size == (100, 50)
    for name, options in (("b.jpg", {"progressive": True}), ("c.png", {}), ("d.gif", {}), ("e.tiff", {})):
        with pytest.raises(PhotographError, match="too large"):
            read_photograph(saved(picture, tmp_path / name, **options))
    with pytest.raises(PhotographError, match="too large"):
        read_photograph(saved(quarters(500, 400), tmp_path / "f.jpg"))


def test_a_heic_photograph_is_read_or_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "phone.heic"
    try:
        import pillow_heif
    except ImportError:
        path.write_bytes(struct.pack(">I", 24) + b"ftypheic" + b"\0" * 200)
        with pytest.raises(PhotographError, match=r'HEIC from a telephone: pip install "kshot\[heic\]"'):
            read_photograph(path)
    else:
        pillow_heif.from_pillow(quarters(256, 192)).save(path)
        assert close(corners(read_photograph(path)), [RED, GREEN, BLUE, WHITE], tolerance=25)
        exif = Image.Exif()
        exif[ORIENTATION] = 6
        pillow_heif.register_heif_opener()
        saved(quarters(256, 192).transpose(Image.Transpose.ROTATE_90), path, exif=exif.tobytes())
        assert close(corners(read_photograph(path)), [RED, GREEN, BLUE, WHITE], tolerance=25)
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(PhotographError, match="damaged"):
            read_photograph(path)


def test_an_avif_picture_that_names_only_the_box_it_shares_with_heic_is_read(tmp_path: Path) -> None:
    path = saved(quarters(256, 192), tmp_path / "browser.avif", quality=95)
    content = path.read_bytes()
    assert content[4:12] == b"ftypavif"
    path.write_bytes(content[:8] + b"mif1" + content[12:])
    assert close(corners(read_photograph(path)), [RED, GREEN, BLUE, WHITE], tolerance=25)


def test_a_pipe_is_no_photograph_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", Path("/dev/zero")):
        with pytest.raises(PhotographError, match="not a file"):
            read_photograph(path)


def test_large_pictures_of_many_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(100)
    monkeypatch.setattr(photographs, "_MEMORY", budget)
    written = io.BytesIO()
    quarters(8, 8).save(written, "PNG")  # 64 pixels of nine bytes: more than all there is, so one at a time
    inside, most = 0, 0
    original = photographs.to_rgb

    def watched(image: Image.Image) -> Image.Image:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.005)
        inside -= 1
        return original(image)

    monkeypatch.setattr(photographs, "to_rgb", watched)
    monkeypatch.setattr(photographs, "_check_size", lambda *_: None)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: read_photograph(io.BytesIO(written.getvalue())), range(16)))
    assert most == 1
    with budget.take(60), budget.take(40):
        assert budget._taken == 100
    assert budget._taken == 0


@pytest.mark.parametrize(("kind", "limit"), [("WEBP", 62), ("JPEG2000", 40), ("PNG", 100)])
def test_the_limit_is_lower_for_kinds_whose_decoders_take_more_memory(kind: str, limit: int) -> None:
    photographs._check_size(Image.new("1", (1000, 1000 * limit)), kind, Path("a"))
    with pytest.raises(PhotographError, match=f"at most {limit} megapixels"):
        photographs._check_size(Image.new("1", (1000, 1000 * (limit + 1))), kind, Path("a"))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_file_with_changed_bytes_is_read_or_refused_but_never_crashes(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
    written = io.BytesIO()
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    quarters(40, 30).save(written, kind, exif=exif)
    content = bytearray(written.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    try:
        image = read_photograph(io.BytesIO(bytes(content)), shorter_side=10)
    except PhotographError:
        return
    assert image.mode == "RGB"
    assert np.asarray(image).ndim == 3
