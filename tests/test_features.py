"""`Features` checks what it is given, cannot be changed, and comes back from its file as it was."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kshot.features
from kshot import Features, files
from kshot.errors import FileFormatError, UserError

RANDOM = np.random.default_rng(0)


def arguments(**changes: object) -> dict:
    """Give the arguments of a complete object, some of them changed."""
    whole = {
        "X": RANDOM.normal(size=(6, 4)),
        "y": [0, 1, 2, 0, 1, 2],
        "names": ["cat", "dog", "hén"],
        "base_weights": RANDOM.normal(size=(5, 4)),
        "base_bias": RANDOM.normal(size=5),
        "base_names": list("abcde"),
        "base_X": RANDOM.normal(size=(3, 4)),
        "base_y": [4, 0, 4],
        "base_groups": ["x", "y", "x", "y", "z"],
        "source": {"backbone": "vgg", "dataset": "cifar100", "rows": [f"test/{i:05}.png" for i in range(6)]},
    }
    return whole | changes


def test_arrays_are_converted() -> None:
    features = Features(**arguments(y=np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)))
    assert features.X.dtype == features.base_X.dtype == np.float32
    assert features.y.dtype == features.base_y.dtype == np.int64
    assert features.base_weights.dtype == features.base_bias.dtype == np.float64
    assert features.names == ("cat", "dog", "hén")
    assert features.base_groups == ("x", "y", "x", "y", "z")


def test_features_and_labels_alone_are_enough() -> None:
    features = Features([[1.0, 2.0], [3.0, 4.0]], [1, 0])
    assert features.names == ("0", "1")
    assert features.source == {}
    assert features.base_weights is features.base_bias is features.base_names is features.base_groups is None
    assert Features([[1.0]], [0], base_weights=[[1.0], [2.0]]).base_names == ("0", "1")


def test_names_may_include_a_class_without_examples() -> None:
    assert Features([[1.0]], [0], names=["seen", "unseen"]).names == ("seen", "unseen")


def test_whole_numbers_written_as_floats_are_labels() -> None:
    assert Features([[1.0], [2.0]], [0.0, 1.0]).y.tolist() == [0, 1]


def test_nothing_can_be_changed() -> None:
    given = RANDOM.normal(size=(6, 4)).astype(np.float32)
    features = Features(**arguments(X=given))
    with pytest.raises(AttributeError):
        features.X = given
    for array in (features.X, features.y, features.base_weights, features.base_bias, features.base_X, features.base_y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    given[0, 0] = 7  # the caller's own array stays the caller's


def test_what_the_caller_does_to_an_array_afterwards_changes_nothing() -> None:
    whole = arguments()
    for name in ("X", "base_X", "base_weights", "base_bias", "y", "base_y"):
        kind = {"X": np.float32, "base_X": np.float32, "y": np.int64, "base_y": np.int64}.get(name, np.float64)
        whole[name] = np.array(whole[name], dtype=kind)
    view = whole["X"].view()
    view.setflags(write=False)  # and yet its memory can be written to
    features = Features(**whole | {"X": view})
    before = {name: getattr(features, name).copy() for name in ("X", "base_X", "base_weights", "base_bias")}
    for name in before:
        whole[name][:] = np.nan
    whole["y"][:], whole["base_y"][:] = 0, 0
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(features, name), values)
    assert features.y.tolist() == [0, 1, 2, 0, 1, 2] and features.base_y.tolist() == [4, 0, 4]


def test_a_read_only_array_of_its_own_and_a_file_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.ones((6, 4), np.float32)
    X.setflags(write=False)
    features = Features(**arguments(X=X))
    assert features.X is X
    features.save(tmp_path / "f")
    read = {}

    def spy(*given, **options):
        arrays, header = files.read(*given, **options)
        read.update(arrays)
        return arrays, header

    monkeypatch.setattr(kshot.features, "files", SimpleNamespace(read=spy))
    again = Features.load(tmp_path / "f")
    assert again.X is read["X"] and again.base_X is read["base_X"]
    assert not again.X.flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_file_gives_everything_back(dtype: str, tmp_path: Path) -> None:
    features = Features(**arguments())
    features.save(tmp_path / "features.safetensors", dtype=dtype)
    again = Features.load(tmp_path / "features.safetensors")
    tolerance = 0 if dtype == "float32" else 1e-3
    for name in ("X", "base_X"):
        assert getattr(again, name).dtype == np.float32
        np.testing.assert_allclose(getattr(again, name), getattr(features, name), rtol=tolerance, atol=tolerance / 10)
    for name in ("y", "base_y", "base_weights", "base_bias"):
        np.testing.assert_array_equal(getattr(again, name), getattr(features, name))
    for name in ("names", "base_names", "base_groups", "source"):
        assert getattr(again, name) == getattr(features, name)
    assert repr(again) == repr(features)


def test_file_without_base_classes_gives_everything_back(tmp_path: Path) -> None:
    Features([[1.0, 2.0]], [0]).save(tmp_path / "f")
    again = Features.load(str(tmp_path / "f"))
    assert again.base_weights is again.base_X is again.base_groups is None
    assert again.names == ("0",)


def test_float16_halves_the_file_and_a_networks_weights_take_four_bytes_each(tmp_path: Path) -> None:
    X, weights = RANDOM.normal(size=(1000, 64)), RANDOM.normal(size=(80, 64)).astype(np.float32)
    features = Features(X, np.zeros(1000), base_weights=weights)
    features.save(tmp_path / "single")
    features.save(tmp_path / "half", dtype="float16")
    size = {name: (tmp_path / name).stat().st_size for name in ("single", "half")}
    assert size["single"] - size["half"] == pytest.approx(2 * X.size, abs=16)  # the header's padding
    assert size["half"] < 2 * X.size + 4 * weights.size + 4 * 1000 + 4000
    np.testing.assert_array_equal(Features.load(tmp_path / "half").base_weights, weights)


def test_which_image_each_row_is_takes_little_space(tmp_path: Path) -> None:
    ids = [f"n01532829/n01532829_{i:08}.jpg" for i in range(20_000)]
    Features([[1.0]], [0], source={"rows": ids}).save(tmp_path / "f")
    assert (tmp_path / "f").stat().st_size < 0.2 * len(json.dumps(ids))
    assert Features.load(tmp_path / "f").source["rows"] == ids


def test_source_takes_numpy_values_and_is_a_copy() -> None:
    rows = [1, 2]
    source = {"rows": rows, "ids": np.arange(3), "size": np.int64(32)}
    features = Features([[1.0]], [0], source=source)
    rows.append(3)
    assert features.source == {"rows": [1, 2], "ids": [0, 1, 2], "size": 32}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y": [0, 1]}, "y must have one label per row of X, 6 of them, and it has 2"),
        ({"y": [0, 1, 2, 0, 1, 3]}, "y must hold labels from 0 up and below 3, the number of classes"),
        ({"y": [0, 1, 2, 0, 1, -1]}, "y must hold labels from 0 up"),
        ({"y": [0, 1, 2, 0, 1, 0.5]}, "y must be a vector of whole numbers"),
        ({"y": [0, 1, 2, 0, 1, np.nan]}, "y must be a vector of whole numbers"),
        ({"y": list("abcabc")}, r"y must be a vector of whole numbers .*np\.unique\(y, return_inverse=True\)"),
        ({"y": [[0], [1], [2], [0], [1], [2]]}, "y must be a vector"),
        ({"X": np.full((6, 4), np.nan)}, "X holds a NaN or an infinity in row 0"),
        ({"X": np.full((6, 4), np.inf)}, "X holds a NaN or an infinity in row 0"),
        ({"X": np.full((6, 4), 1e300)}, "X holds a NaN or an infinity in row 0"),
        ({"X": np.zeros(6)}, "X must have 2 dimension"),
        ({"X": np.zeros((0, 4))}, "X must have 2 dimension.* and not be empty"),
        ({"X": [["a"]]}, "X must be an array of numbers"),
        ({"base_weights": np.zeros((5, 3))}, "base_weights has 3 columns, and X has 4"),
        ({"base_weights": np.full((5, 4), np.nan)}, "base_weights holds a NaN"),
        ({"base_bias": np.zeros(4)}, "base_bias must have 5 entries"),
        ({"base_names": ["a"]}, "base_names must have one name per class, 5 of them, and it has 1"),
        ({"base_names": list("aacde")}, "base_names holds 'a' twice"),
        ({"names": ["cat", "cat", "dog"]}, "names holds 'cat' twice"),
        ({"base_X": np.zeros((3, 5))}, "base_X has 5 columns, and X has 4"),
        ({"base_y": [0, 1, 5]}, "base_y must hold labels from 0 up and below 5"),
        ({"base_y": [0]}, "base_y must have one label per row of base_X, 3 of them"),
        ({"base_y": None}, "base_X and base_y belong together"),
        ({"base_groups": ["x"]}, "base_groups must have one superclass.*5 of them, and it has 1"),
        ({"base_groups": [0.5] * 5}, "base_groups must have one superclass"),
        ({"base_weights": None}, "base_bias needs base_weights"),
        ({"source": {"model": object()}}, "source must be a dictionary of JSON values"),
        ({"source": ["vgg"]}, "source must be a dictionary, and it is a list"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_that_names_it(changes: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Features(**arguments(**changes))


def test_too_large_for_float16_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="X goes up to 1e\\+05, too large for float16"):
        Features([[1e5]], [0]).save(tmp_path / "f", dtype="float16")
    with pytest.raises(UserError, match="dtype must be float32 or float16"):
        Features([[1.0]], [0]).save(tmp_path / "f", dtype="float64")
    assert not list(tmp_path.iterdir())


def test_missing_file_is_named_with_the_bundled_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kshot.features, "_BUNDLED", tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no features file resnet, and no features are bundled"):
        Features.load("resnet")
    for name in ("vgg-cifar100", "resnet34-miniimagenet"):
        Features([[1.0]], [0], names=[name]).save(tmp_path / f"{name}.safetensors")
    with pytest.raises(FileNotFoundError, match="the bundled features are resnet34-miniimagenet, vgg-cifar100"):
        Features.load("resnet")
    assert Features.load("vgg-cifar100").names == ("vgg-cifar100",)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"not a file of ours")
    with pytest.raises(FileFormatError):
        Features.load(tmp_path / "noise")
    kshot.LaplacePrior([0.0], [1.0]).save(tmp_path / "prior")
    with pytest.raises(FileFormatError, match="is a kshot prior file, and a features file is needed"):
        Features.load(tmp_path / "prior")
    whole = {"X": np.ones((2, 1), np.float32), "y": np.zeros(2, np.int32), "source": np.zeros(4, np.uint8)}
    names = {"names": ["a"], "base_names": None, "base_groups": None}
    for arrays, metadata in ((whole, names), ({}, names), (whole, {})):
        files.write(tmp_path / "f", arrays, kind="features", version=1, metadata=metadata)
        with pytest.raises(FileFormatError, match="f is damaged"):
            Features.load(tmp_path / "f")


def test_it_says_what_it_holds() -> None:
    assert repr(Features(**arguments())) == (
        "Features(6 examples of 3 classes, 4 features, 5 base classes with a bias, 3 examples of base classes)"
    )
