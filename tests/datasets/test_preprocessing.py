"""Preprocessing: resize, centre crop and normalisation, one picture or many, to and from JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from kshot.datasets.photographs import shorter_side_crop
from kshot.datasets.preprocessing import NAMED, Preprocessing
from kshot.errors import UserError

PLAIN = Preprocessing(crop=8, mean=(0, 0, 0), std=(1, 1, 1))


def noise(height: int, width: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(deadline=None, max_examples=150)
@given(
    width=st.integers(1, 300),
    height=st.integers(1, 300),
    crop=st.integers(1, 64),
    extra=st.integers(0, 20),
    interpolation=st.sampled_from(["bilinear", "bicubic", "lanczos"]),
)
def test_the_crop_is_that_of_the_whole_resized_picture(
    width: int, height: int, crop: int, extra: int, interpolation: Any
) -> None:
    # Half the contrast: Pillow takes rows or columns first, whichever is cheaper, and cuts what overshoots in between.
    image = Image.fromarray(noise(height, width) // 2 + 64)
    resize = crop + extra
    scale = resize / min(width, height)
    size = (round(width * scale), round(height * scale))
    if max(size) > 4000:
        return
    whole = image.resize(size, Image.Resampling[interpolation.upper()])
    x, y = (size[0] - crop) // 2, (size[1] - crop) // 2
    expected = np.asarray(whole.crop((x, y, x + crop, y + crop))).astype(int)
    found = np.asarray(shorter_side_crop(image, crop, resize=resize, interpolation=interpolation)).astype(int)
    assert found.shape == (crop, crop, 3)
    # Each order rounds twice: by 0.5 after the first pass, which the second passes on (Σ|weights| < 1.7), and by 0.5.
    assert np.abs(found - expected).max() <= 2


def test_extreme_shapes_need_no_more_memory_than_their_crop() -> None:
    for size in ((1, 100_000), (100_000, 1), (1, 1), (3, 50_000)):
        found = shorter_side_crop(Image.new("RGB", size, (9, 8, 7)), 224, resize=256)
        assert found.size == (224, 224)
        assert found.getpixel((100, 100)) == (9, 8, 7)


def test_a_picture_of_the_networks_size_goes_in_unchanged() -> None:
    image = noise(8, 8)
    np.testing.assert_array_equal(PLAIN.pixels(image), image)
    np.testing.assert_array_equal(PLAIN.apply(image), image.transpose(2, 0, 1))
    np.testing.assert_array_equal(PLAIN.pixels(noise(8, 20)), noise(8, 20)[:, 6:14])


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_normalisation_is_the_formula(name: str, layout: Any) -> None:
    how = Preprocessing(**{**NAMED[name].to_json(), "crop": 5, "resize": 5, "layout": layout})
    image = noise(5, 5)
    expected = (image.astype(np.float64) - np.array(how.mean)) / np.array(how.std)
    expected = expected.transpose(2, 0, 1) if layout == "NCHW" else expected
    found = how.apply(image)
    assert found.dtype == np.float32 and found.shape == how.shape
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("size", [(8, 8), (10, 10), (33, 20), (4, 6)])
def test_a_batch_gives_what_its_pictures_give_one_by_one(size: tuple[int, int]) -> None:
    how = Preprocessing(crop=8, resize=10, mean=(10, 20, 30), std=(4, 5, 6))
    batch = np.stack([noise(*size, seed=seed) for seed in range(5)])
    np.testing.assert_array_equal(how.apply_batch(batch), np.stack([how.apply(image) for image in batch]))
    assert how.apply_batch(batch[:0]).shape == (0, 3, 8, 8)


def test_it_travels_as_json() -> None:
    for how in NAMED.values():
        again = Preprocessing.from_json(json.loads(json.dumps(how.to_json())))
        assert again == how and hash(again) == hash(how)


def test_a_convention_by_name_fits_any_size() -> None:
    how = Preprocessing.named("imagenet", crop=288)
    assert (how.crop, how.resize, how.mean) == (288, 329, NAMED["imagenet"].mean)
    with pytest.raises(UserError, match="not one of imagenet"):
        Preprocessing.named("caffe")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"crop": 0}, "crop"),
        ({"crop": 224.0}, "crop"),
        ({"crop": 10**9}, "crop"),
        ({"resize": 4}, "resize"),
        ({"resize": "big"}, "resize"),
        ({"std": [1, 0, 1]}, "std"),
        ({"mean": [1, 2]}, "mean"),
        ({"mean": "grey"}, "mean"),
        ({"std": [1, 1, float("nan")]}, "std"),
        ({"layout": "CHWN"}, "layout"),
        ({"interpolation": "cubic"}, "interpolation"),
        ({"colour": "BGR"}, "colour"),
    ],
)
def test_nonsense_is_refused_by_name(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Preprocessing.from_json({**PLAIN.to_json(), **changed})


def test_missing_fields_and_wrong_arrays_are_refused() -> None:
    with pytest.raises(UserError, match="'std' is missing"):
        Preprocessing.from_json({"crop": 8, "mean": [0, 0, 0]})
    with pytest.raises(UserError, match="JSON object"):
        Preprocessing.from_json([8])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="uint8"):
        PLAIN.apply_batch(np.zeros((2, 8, 8, 3)))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"\(h, w, 3\)"):
        PLAIN.apply(np.zeros((8, 8), np.uint8))
