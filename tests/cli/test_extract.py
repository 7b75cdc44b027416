"""`kshot extract`: the same feature file whoever computes it and however often it is interrupted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from joblib import parallel_config
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from kshot import Backbone, Features
from kshot.backbones import shards
from kshot.cli.extract import extract
from kshot.datasets.photographs import PhotographError
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import UserError
from kshot.training.backbone_file import BackboneContent

HOW = Preprocessing(crop=8, mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0))
NAMES = ("cat", "dog", "owl")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A small real network: pixels times a matrix, tanh; three base classes with identifiers."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((192, 5)).astype(np.float32) / 10
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("MatMul", ["flat", "matrix"], ["product"]),
            helper.make_node("Tanh", ["product"], ["features"]),
        ],
        "small",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content = BackboneContent(
        name="small",
        onnx=np.frombuffer(model.SerializeToString(), np.uint8),
        preprocessing=HOW,
        dim=5,
        base_weights=rng.standard_normal((3, 5)).astype(np.float32),
        base_bias=np.arange(3, dtype=np.float32),
        base_names=NAMES,
        base_ids=("n1", "n2", "n3"),
    )
    Backbone(content).save(tmp_path / "small.safetensors")
    return tmp_path / "small.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes with seven photographs each, a note beside them and a damaged photograph among them."""
    rng = np.random.default_rng(1)
    root = tmp_path / "feeder"
    for name in ("robin", "sparrow"):
        (root / name).mkdir(parents=True)
        for number in range(7):
            pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    (root / "robin" / "3.png").write_bytes((root / "robin" / "3.png").read_bytes()[:300])
    (root / "notes.txt").write_text("seed")
    return root


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kshot", "extract", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_folder_becomes_features_with_what_was_skipped(folder: Path, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.safetensors"
    done = run(folder, "-o", out, "--backbone", network)
    assert done.returncode == 0 and done.stderr == ""  # no progress bar where the output is piped
    assert "13 examples of 2 classes" in done.stdout
    assert "skipped 2: notes.txt (not named as an image), robin/3.png (damaged: ends too early)" in done.stdout
    assert not list(tmp_path.glob("*.parts"))
    found, backbone = Features.load(out), Backbone.load(network)
    assert found.names == ("robin", "sparrow") and found.base_names == NAMES
    np.testing.assert_array_equal(found.y, [0] * 6 + [1] * 7)
    paths = [folder / image for image in found.source["images"]]
    assert folder / "robin/3.png" not in paths
    np.testing.assert_allclose(found.X, backbone.features(paths), atol=1e-6)
    assert found.base_weights is not None and found.base_bias is not None and backbone.base_weights is not None
    np.testing.assert_array_equal(found.base_weights, backbone.base_weights)
    assert found.source["backbone"] == {"name": "small", "hash": backbone.hash}


def test_a_broken_off_run_goes_on_and_gives_the_identical_file(
    folder: Path, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = tmp_path / "whole.safetensors", tmp_path / "resumed.safetensors"
    extract(str(folder), whole, str(network), shard_size=3)
    computed: list[int] = []
    original = shards._compute

    def break_off(number: int, *arguments: Any) -> Any:
        if number == 3:
            raise KeyboardInterrupt
        computed.append(number)
        return original(number, *arguments)

    monkeypatch.setattr(shards, "_compute", break_off)
    with pytest.raises(KeyboardInterrupt):
        extract(str(folder), resumed, str(network), shard_size=3)
    assert not resumed.exists() and computed == [0, 1, 2]
    computed.clear()
    monkeypatch.setattr(shards, "_compute", lambda number, *rest: computed.append(number) or original(number, *rest))
    extract(str(folder), resumed, str(network), shard_size=3)
    assert computed == [3, 4]
    assert resumed.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.parts"))


def test_finished_shards_are_redone_when_pictures_or_network_change(
    folder: Path, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = Backbone.load(network)
    paths = sorted((folder / "sparrow").iterdir())
    computed: list[int] = []
    original = shards._compute
    monkeypatch.setattr(shards, "_compute", lambda number, *rest: computed.append(number) or original(number, *rest))

    def again(network: Backbone = backbone, **options: Any) -> list[int]:
        computed.clear()
        ids = [path.name for path in paths]
        settings = {"shard_size": 3, "folder": tmp_path / "parts", **options}
        shards.extract_in_shards(network, paths, ids, **settings)
        return list(computed)

    assert again() == [0, 1, 2]
    assert again() == []
    Image.new("RGB", (9, 9), "red").save(paths[4])
    assert again() == [1]
    damaged = tmp_path / "parts" / "shard-000002.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert again() == [2]
    content = backbone._content
    assert content.base_bias is not None
    other = Backbone(BackboneContent(**{**content.__dict__, "base_bias": content.base_bias + 1}))
    assert again(other) == [0, 1, 2]
    assert again(other, batch_size=2) == [0, 1, 2]
    # The same pictures in a folder of another name need not be done again.
    moved = folder.rename(tmp_path / "moved")
    paths = sorted((moved / "sparrow").iterdir())
    assert again(other, batch_size=2) == []


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_every_backend_of_joblib_gives_the_identical_file(
    folder: Path, network: Path, tmp_path: Path, backend: str
) -> None:
    alone, shared = tmp_path / "alone.safetensors", tmp_path / "shared.safetensors"
    extract(str(folder), alone, str(network), shard_size=2)
    # "multiprocessing" stands for Ray's backend, which derives from it and cannot hand over results one by one.
    with parallel_config(backend=backend, n_jobs=2):
        extract(str(folder), shared, str(network), shard_size=2)
    assert shared.read_bytes() == alone.read_bytes()


@pytest.mark.slow
def test_a_dask_cluster_shares_the_work(folder: Path, network: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    alone, shared = tmp_path / "alone.safetensors", tmp_path / "shared.safetensors"
    extract(str(folder), alone, str(network), shard_size=2)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    )
    with cluster, distributed.Client(cluster) as client, parallel_config(backend="dask"):
        extract(str(folder), shared, str(network), shard_size=2)
        workers = {worker for story in client.run(_sessions).values() for worker in story}
    assert shared.read_bytes() == alone.read_bytes()
    assert workers  # the network was at work in the cluster's processes, not here


def _sessions() -> list[int]:
    """Say, inside a worker, whether it has loaded ONNX Runtime."""
    import os

    return [os.getpid()] if "onnxruntime" in sys.modules else []


def test_base_images_are_matched_with_the_rows_of_the_base_weights(folder: Path, network: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    for name, source in (("n3", "robin"), ("cat", "sparrow"), ("unknown", "robin")):
        shutil.copytree(folder / source, base / name)
    out = tmp_path / "f.safetensors"
    extract(str(folder), out, str(network), base_images=base, base_per_class=4)
    found = Features.load(out)
    assert found.base_X is not None and found.base_y is not None
    np.testing.assert_array_equal(found.base_y, [0, 0, 0, 0, 2, 2, 2])  # the last four of each, one of them damaged
    assert found.source["base_images"][0] == "cat/3.png"
    with pytest.raises(UserError, match=r"no subfolder of .* is named as a base class of small, such as n1"):
        extract(str(folder), out, str(network), base_images=folder)


def test_a_class_is_not_new_beside_its_own_row(folder: Path, network: Path, tmp_path: Path) -> None:
    (folder / "robin").rename(folder / "n2")
    extract(str(folder), tmp_path / "f.safetensors", str(network))
    assert Features.load(tmp_path / "f.safetensors").base_names == ("cat", "owl")


def test_any_onnx_file_is_taken_with_its_options(folder: Path, network: Path, tmp_path: Path) -> None:
    content = Backbone.load(network)._content
    path = tmp_path / "net.onnx"
    path.write_bytes(content.onnx.tobytes())
    onnx.load_model(path)
    (tmp_path / "how.json").write_text('{"crop": 8, "mean": [127, 127, 127], "std": [128, 128, 128]}')
    out = tmp_path / "f.safetensors"
    done = run(folder, "-o", out, "--backbone", path, "--preprocessing", tmp_path / "how.json", "--dtype", "float16")
    assert done.returncode == 0, done.stderr
    assert Features.load(out).base_weights is None
    (tmp_path / "how.json").write_text("crop: 8")
    for given, words in ((tmp_path / "how.json", "is not JSON"), ("caffe", "neither a file nor one of imagenet")):
        done = run(folder, "-o", out, "--backbone", path, "--preprocessing", given)
        assert done.returncode == 2 and words in done.stderr


def test_bad_input_is_one_sentence_and_leaves_nothing_behind(folder: Path, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.safetensors"
    (tmp_path / "empty").mkdir()
    given = ("--backbone", network)
    for arguments, words in (
        ((tmp_path / "nowhere", "-o", out, *given), "there is no folder"),
        ((tmp_path / "empty", "-o", out, *given), "has no subfolder with images"),
        ((folder, "-o", tmp_path / "no" / "f", *given), "there is no folder"),
        ((folder, "-o", tmp_path, *given), "is a folder"),
        ((folder, "-o", out, *given, "--device", "abacus"), "there is no device 'abacus'"),
        ((folder, "-o", out, *given, "--dtype", "int8"), "--dtype must be float32 or float16"),
        ((folder, "-o", out, *given, "--on-error", "refuse"), "3.png cannot be used: damaged: ends too early"),
        ((folder, "-o", out, "--backbone", "lite"), "there is no backbone lite"),
        (("cifar100", "-o", out, *given, "--data", tmp_path), "there is no cifar100 in the folder"),
    ):
        done = run(*arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
        assert done.stderr.startswith("kshot: ") and done.stderr.count("\n") == 1
        assert not out.exists()


def test_a_folder_without_one_readable_photograph_says_why(network: Path, tmp_path: Path) -> None:
    (tmp_path / "bad" / "a").mkdir(parents=True)
    (tmp_path / "bad" / "a" / "notes.jpg").write_text("notes")
    with pytest.raises(UserError, match=r"not one image of folder bad can be read: a/notes\.jpg \(not an image\)"):
        extract(str(tmp_path / "bad"), tmp_path / "f", str(network))
    with pytest.raises(PhotographError):
        extract(str(tmp_path / "bad"), tmp_path / "f", str(network), on_error="refuse")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files there")
def test_a_full_disk_leaves_no_half_written_file(folder: Path, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.safetensors"
    Features(np.eye(2, dtype=np.float32), np.arange(2)).save(out)
    before = out.read_bytes()
    # A limit of 300 bytes on every file stands for a full disk: the system refuses the write in the same way.
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "from kshot.cli import main\n"
        f"main(['extract', {str(folder)!r}, '-o', {str(out)!r}, '--backbone', {str(network)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no space left" in done.stderr and done.stderr.count("\n") == 1
    assert out.read_bytes() == before
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".partial")]


@pytest.mark.data
@pytest.mark.slow
def test_the_data_sets_bring_their_base_classes(image_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "mini.safetensors"
    root = tmp_path / "mini-imagenet"
    for split in ("train", "val", "test"):
        for wnid in sorted((image_data / "mini-imagenet" / split).iterdir()):
            (root / split / wnid.name).mkdir(parents=True)
            for path in sorted(wnid.iterdir())[:2]:
                (root / split / wnid.name / path.name).symlink_to(path)
    extract("miniimagenet", out, data=tmp_path, base_per_class=1)
    found = Features.load(out)
    assert len(found.names) == 20 and len(found.X) == 40
    assert found.base_names is not None and len(found.base_names) == 980  # ImageNet's without the 20 new ones
    assert found.base_y is not None and len(found.base_y) == 80
    names = dict(enumerate(found.base_names))
    assert found.base_weights is not None and found.base_bias is not None and found.base_X is not None
    logits = found.base_X @ found.base_weights.T + found.base_bias
    assert (logits.argmax(1) == found.base_y).mean() > 0.3, names


def test_only_what_was_made_is_removed_again(folder: Path, network: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.parts" / "photographs"
    own.mkdir(parents=True)
    (own / "precious.txt").write_text("mine")
    extract(str(folder), tmp_path / "mine", str(network))
    assert (own / "precious.txt").read_text() == "mine"
    assert [path.name for path in (tmp_path / "mine.parts").iterdir()] == ["photographs"]


def test_the_backbone_is_not_written_over(folder: Path, network: Path) -> None:
    before = network.read_bytes()
    with pytest.raises(UserError, match="is the file that is read"):
        extract(str(folder), network, str(network))
    assert network.read_bytes() == before


def test_what_is_no_feature_file_is_not_replaced(folder: Path, network: Path, tmp_path: Path) -> None:
    for out in (folder / "robin" / "0.png", folder / "notes.txt"):
        before = out.read_bytes()
        done = run(folder, "-o", out, "--backbone", network)
        assert done.returncode == 2 and "is not a feature file of kshot, so it is not replaced" in done.stderr
        assert out.read_bytes() == before


def test_a_class_that_is_new_is_no_base_class(folder: Path, network: Path, tmp_path: Path) -> None:
    """Its photographs among --base-images are left alone, as its row of the base weights is."""
    shutil.copytree(folder / "robin", folder / "n1")
    base = tmp_path / "base"
    for name in ("n1", "n2"):
        shutil.copytree(folder / "sparrow", base / name)
    extract(str(folder), tmp_path / "f.safetensors", str(network), base_images=base)
    found = Features.load(tmp_path / "f.safetensors")
    assert found.base_names == ("dog", "owl") and found.base_y is not None and set(found.base_y.tolist()) == {0}
    for name in ("n2", "n3"):
        shutil.copytree(folder / "robin", folder / name)
    extract(str(folder), tmp_path / "all.safetensors", str(network))
    assert Features.load(tmp_path / "all.safetensors").base_weights is None


def test_names_that_are_no_utf8_are_kept(folder: Path, network: Path, tmp_path: Path) -> None:
    odd = folder / "sparrow" / b"caf\xe9.png".decode("utf-8", "surrogateescape")
    try:
        (folder / "sparrow" / "0.png").rename(odd)
    except OSError:
        pytest.skip("this file system has no such names")
    extract(str(folder), tmp_path / "f.safetensors", str(network))
    images = Features.load(tmp_path / "f.safetensors").source["images"]
    assert all((folder / image).exists() for image in images) and f"sparrow/{odd.name}" in images


def test_class_names_in_another_encoding_are_refused(folder: Path, network: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes("gr\u00fcn".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        extract(str(folder), tmp_path / "f.safetensors", str(network), base_names=tmp_path / "names.txt")
    with pytest.raises(UserError, match="there is no file"):
        extract(str(folder), tmp_path / "f.safetensors", str(network), base_names=tmp_path / "gone.txt")


def test_a_narrow_encoding_costs_a_sign_and_no_traceback(folder: Path, network: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kshot", "extract", folder, "-o", tmp_path / "f", "--backbone", network]
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=narrow)
    assert done.returncode == 0 and " s ? " in done.stdout and done.stderr == ""
