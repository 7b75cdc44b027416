"""A trained episodic method is a method like all others: from its file, from kept predictions, and by the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

import kshot  # noqa: E402
from kshot.cli import main  # noqa: E402
from kshot.datasets.tasks import draw_tasks  # noqa: E402
from kshot.evaluation.episodic import Episodic, is_episodic  # noqa: E402
from kshot.training.batches import Normalisation  # noqa: E402
from kshot.training.episodic import model_file  # noqa: E402
from kshot.training.episodic.methods import build_method, from_model  # noqa: E402
from kshot.training.episodic.model_file import EpisodicModel, bundled, task_digest  # noqa: E402
from kshot.training.episodic.predict import predict  # noqa: E402

pytestmark = pytest.mark.train
RECIPE = {"method": "protonet", "network": "conv4-cifar100", "size": 32, "ways": 20, "shots": 5}
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}


def main_ok(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert not stopped.value.code


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four classes of small images under `base` and three others under `new`."""
    root, random = tmp_path_factory.mktemp("episodic"), np.random.default_rng(0)
    others = {"cyan": (30, 200, 200), "pink": (220, 120, 160), "dark": (20, 20, 20)}
    for kind, colours in (("base", COLOURS), ("new", others)):
        for name, colour in colours.items():
            (root / kind / name).mkdir(parents=True)
            for number in range(8):
                pixels = np.clip(np.array(colour) + random.integers(-20, 20, (32, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / kind / name / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def finished(folders: Path) -> Path:
    """Train by the command for two short epochs."""
    options = ["--method", "protonet", "--ways", "3", "--shots", "2", "--queries", "2", "--episodes", "5"]
    options += ["--network", "conv4-cifar100", "--epochs", "2", "--precision", "float32", "--device", "cpu"]
    out = folders / "run-cifar"
    main_ok(["train", "--data", str(folders / "base"), "--out", str(out), *options, "--images-per-class", "5"])
    return out


def features(folder: Path) -> kshot.Features:
    """Give features of the new images that say nothing but which image each row is."""
    from kshot.datasets.folders import load

    images, _ = load(folder, size=32)
    return kshot.Features(
        np.zeros((len(images), 1)),
        images.labels,
        names=images.names,
        source={"data": "folder new", "images": list(images.ids)},
    )


@pytest.mark.slow
def test_the_command_trains_and_its_file_is_a_method(folders: Path, finished: Path) -> None:
    found = {path.name for path in finished.iterdir()}
    assert found == {"log.csv", "curves.png", "recipe.json", "checkpoint.pt", "episodic.safetensors"}
    assert len((finished / "log.csv").read_text().splitlines()) == 3
    method = Episodic.load(finished / "episodic.safetensors", data=folders / "new")
    new = features(folders / "new")
    table = kshot.evaluate(new, [method], ways=3, shots=[1, 2], tasks=20, queries=4)
    assert list(table["method"]) == ["protonet-2shot"] * 2 and (table["accuracy"] > 0.8).all()


@pytest.mark.slow
def test_a_class_that_was_trained_on_is_no_new_class(folders: Path, finished: Path) -> None:
    method = Episodic.load(finished / "episodic.safetensors", data=folders / "base")
    tasks = draw_tasks(features(folders / "base").y, ways=2, shots=1, queries=2, tasks=2)
    with pytest.raises(ValueError, match="was trained on the class 'blue', which is to be new"):
        method(features(folders / "base"), tasks)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--ways", "5"], "--ways belongs to training by episodes: give --method too"),
        (["--method", "protonet", "--recipe", "vgg-cifar100"], "--recipe belongs to training by batches"),
        (["--method", "maml"], "there is no episodic method 'maml'"),
        (["--method", "protonet", "--network", "conv4-cifar100"], "too few for episodes of 20 ways"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_a_sentence(
    options: list[str], sentence: str, folders: Path, tmp_path: Path, capsys
) -> None:
    arguments = ["train", "--data", str(folders / "base"), "--out", str(tmp_path / "run"), "--precision", "float32"]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, *options])
    assert stopped.value.code == 2 and sentence in capsys.readouterr().err


def model(seed: int = 0, **changes) -> EpisodicModel:
    torch.manual_seed(seed)
    weights = {name: value.numpy() for name, value in build_method(RECIPE).state_dict().items()}
    fields = {"recipe": RECIPE, "names": ("cat", "dog"), "mean": (120.0, 115.0, 110.0), "std": (60.0, 61.0, 62.0)}
    return EpisodicModel(**fields | {"weights": weights, "data": "cifar100 paper"} | changes)


def new_images(count: int = 60) -> tuple[np.ndarray, kshot.Features]:
    images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3)).astype(np.uint8)
    source = {"data": "cifar100 paper", "images": [f"test/{n}" for n in range(count)]}
    return images, kshot.Features(np.zeros((count, 1)), np.arange(count) % 3, source=source)


def test_a_file_keeps_weights_predictions_and_what_made_them(tmp_path: Path) -> None:
    images, new = new_images()
    tasks = draw_tasks(new.y, ways=3, shots=2, queries=5, tasks=4)
    first = model(provenance={"command": "kshot train", "seed": 0})
    method, normalisation = from_model(first)
    proba = predict(method, images, tasks, normalisation=normalisation, size=32)
    np.testing.assert_allclose(proba.sum(axis=2), 1)
    first.with_predictions(new.source["images"], tasks, proba).save(tmp_path / "model", dtype="float16")
    again = EpisodicModel.load(tmp_path / "model")
    assert (again.recipe, again.names, again.data) == (RECIPE, ("cat", "dog"), "cifar100 paper")
    assert again.provenance["command"] == "kshot train" and normalisation == Normalisation(again.mean, again.std)
    for name, value in first.weights.items():
        np.testing.assert_allclose(again.weights[name], value, rtol=1e-3, atol=1e-7)
    kept = again.predicted(new.source["images"], tasks)
    assert kept is not None
    np.testing.assert_allclose(kept, proba, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(kept.sum(axis=2), 1, rtol=1e-12)


def test_predictions_are_kept_for_these_very_images_and_tasks_only() -> None:
    _, new = new_images()
    ids = new.source["images"]
    tasks, others = (draw_tasks(new.y, ways=3, shots=2, queries=5, tasks=4, seed=seed) for seed in (0, 1))
    kept = model().with_predictions(ids, tasks, np.full((4, 15, 3), 1 / 3))
    assert kept.predicted(ids, tasks) is not None and kept.predicted(ids, others) is None
    assert kept.predicted([f"train/{n}" for n in range(60)], tasks) is None
    moved = np.roll(np.arange(60), 7)  # the same images in other rows are the same tasks
    rows = np.argsort(moved)
    same = type(tasks)(tasks.classes, rows[tasks.support], rows[tasks.query])
    assert task_digest([ids[row] for row in moved], same) == task_digest(ids, tasks)


def test_an_embedding_once_per_image_gives_what_the_whole_method_gives_per_task() -> None:
    images, new = new_images()
    tasks = draw_tasks(new.y, ways=3, shots=2, queries=5, tasks=3)
    method, normalisation = from_model(model())
    proba = predict(method, images, tasks, normalisation=normalisation, size=32)
    for task in range(3):
        shown = [normalisation(torch.from_numpy(images[rows[task]])) for rows in (tasks.support, tasks.query)]
        with torch.no_grad():
            whole = method(*shown, ways=3).exp().numpy()
        np.testing.assert_allclose(proba[task], whole, rtol=1e-3, atol=1e-6)


def test_the_bundled_model_is_that_of_the_data_set_and_the_nearest_shots(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(model_file, "_BUNDLED", tmp_path)
    for shots in (1, 5):
        made = model(recipe=RECIPE | {"shots": shots})
        made.save(tmp_path / f"protonet-cifar100-{shots}shot.safetensors", dtype="float16")
    found = [bundled("protonet", "cifar100 paper", shots=shots).recipe["shots"] for shots in (1, 2, 3, 5, 10)]
    assert found == [1, 1, 5, 5, 5]
    assert bundled("protonet-1shot", "cifar100 paper", shots=5).recipe["shots"] == 1
    for name, data in (("protonet", "miniimagenet"), ("matching", "cifar100 paper"), ("protonet-2shot", "cifar100")):
        with pytest.raises(ValueError, match=f"no {name} trained on {data}"):
            bundled(name, data, shots=1)
    assert is_episodic("meta-lstm-5shot") and not is_episodic("class-mean")


def test_kept_predictions_are_read_without_torch(tmp_path: Path) -> None:
    _, new = new_images()
    new.save(tmp_path / "features")
    tasks = draw_tasks(new.y, ways=3, shots=1, queries=5, tasks=4)
    proba = np.random.default_rng(0).dirichlet(np.ones(3), (4, 15))
    model().with_predictions(new.source["images"], tasks, proba).save(tmp_path / "model")
    code = f"""
import sys
sys.modules["torch"] = None
import kshot
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.episodic import Episodic
features, method = kshot.Features.load({str(tmp_path / "features")!r}), Episodic.load({str(tmp_path / "model")!r})
print(method(features, draw_tasks(features.y, ways=3, shots=1, queries=5, tasks=4))[0, 0])
try:
    method(features, draw_tasks(features.y, ways=3, shots=1, queries=4, tasks=4))
except Exception as error:
    print(type(error).__name__, error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    lines = printed.strip().splitlines()
    np.testing.assert_allclose(np.fromstring(lines[0].strip("[]"), sep=" "), proba[0, 0], rtol=2e-3)
    assert lines[1].startswith("MissingExtraError protonet-5shot on tasks without kept predictions needs torch")


def test_features_that_do_not_name_their_images_are_refused() -> None:
    tasks = draw_tasks([0] * 8 + [1] * 8, ways=2, shots=1, queries=2, tasks=2)
    with pytest.raises(ValueError, match="do not say which image each row is"):
        Episodic("protonet")(kshot.Features(np.zeros((16, 1)), [0] * 8 + [1] * 8), tasks)
