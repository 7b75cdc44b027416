"""The trainer learns, resumes exactly, and gives the same with one process as with two."""

from __future__ import annotations

import csv
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.errors import UserError  # noqa: E402
from kshot.training import networks, precision  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.checkpoint import restore  # noqa: E402
from kshot.training.networks.resnet import ResNet  # noqa: E402
from kshot.training.networks.vgg import VGG  # noqa: E402
from kshot.training.recipe import RECIPES, Phase, Recipe  # noqa: E402
from kshot.training.trainer import _optimiser, train  # noqa: E402

pytestmark = pytest.mark.train
SCRIPT = Path(__file__).with_name("two_processes.py")
RECIPE = Recipe(
    "tiny", (Phase(2, 6), Phase(2, 8)), "adam", 3e-3, 16, 1e-3, averaging=0.9, augmentation=Augmentation(shift=0.1)
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    class Tiny(VGG):
        """A VGG with dropout that takes images of any size: it averages over them first."""

        def features(self, images):
            pooled = nn.functional.adaptive_avg_pool2d(self.convolutions(images), 4)
            return self.dense(pooled)

    build = lambda classes: Tiny(classes, size=8, widths=(8,), hidden=16, features=8)  # noqa: E731
    monkeypatch.setitem(networks.NETWORKS, "tiny", build)


def coloured(count: int = 96, seed: int = 0) -> ImageSet:
    """Four classes of noisy images that differ in brightness."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    images = (random.integers(0, 60, (count, 8, 8, 3)) + 60 * labels[:, None, None, None]).astype(np.uint8)
    return ImageSet(images, labels, ("a", "b", "c", "d"), tuple(map(str, range(count))))


def run(out: Path, **options):
    return train(
        coloured(), RECIPE, out=out, **({"test": coloured(seed=1), "device": "cpu", "precision": "float32"} | options)
    )


def rows(out: Path) -> list[dict[str, float]]:
    with (out / "log.csv").open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def test_it_learns_and_leaves_log_curves_and_checkpoint(tmp_path: Path) -> None:
    lines: list[str] = []
    trained = train(
        coloured(960), RECIPE.changed(epochs=12), out=tmp_path, test=coloured(seed=1), device="cpu",
        precision="float32", say=lines.append,
    )  # fmt: skip
    log = rows(tmp_path)
    assert [row["epoch"] for row in log] == list(range(1, 13)) and len(lines) == 12
    assert log[-1]["loss"] < 0.7 * log[0]["loss"] and log[-1]["test_accuracy"] > 0.6
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    again = restore(tmp_path)
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name])
    assert trained.averaged is not None and again.averaged is not None
    assert torch.equal(trained.averaged.last.weight, again.averaged.last.weight)
    assert not torch.equal(trained.averaged.last.weight, trained.network.last.weight)


def test_a_resumed_run_gives_the_same_weights_as_one_without_a_break(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    run(tmp_path / "broken", stop_after=1)
    run(tmp_path / "broken", stop_after=3, resume=True)
    resumed = run(tmp_path / "broken", resume=True)
    for a, b in ((whole.network, resumed.network), (whole.averaged, resumed.averaged)):
        for name, value in a.state_dict().items():
            assert torch.equal(value, b.state_dict()[name]), name
    for first, second in zip(rows(tmp_path / "whole"), rows(tmp_path / "broken"), strict=True):
        assert first["loss"] == second["loss"] and first["test_accuracy"] == second["test_accuracy"]


def test_a_run_that_grows_resumes_exactly(tmp_path: Path, monkeypatch) -> None:
    build = lambda classes: ResNet(classes, size=8, widths=(8, 16), blocks=(2, 2))  # noqa: E731
    monkeypatch.setitem(networks.NETWORKS, "growing", build)
    phases = (Phase(2, 8, depth=0.5), Phase(2, 8))
    recipe = Recipe("growing", phases, "sgd", 0.05, 16, 1e-3, averaging=0.9, augmentation=Augmentation())
    options = {"device": "cpu", "precision": "float32"}
    shallow = train(coloured(), recipe, out=tmp_path / "broken", stop_after=2, **options)
    assert not shallow.network.groups[0][1].norm2.weight.any()  # still the identity: the export may keep it
    resumed = train(coloured(), recipe, out=tmp_path / "broken", resume=True, **options)
    whole = train(coloured(), recipe, out=tmp_path / "whole", **options)
    assert whole.network.groups[0][1].norm2.weight.any()
    for a, b in ((whole.network, resumed.network), (whole.averaged, resumed.averaged)):
        for name, value in a.state_dict().items():
            assert torch.equal(value, b.state_dict()[name]), name


def test_the_seed_decides(tmp_path: Path) -> None:
    first, second, other = (run(tmp_path / str(n), seed=seed, stop_after=1) for n, seed in enumerate((1, 1, 2)))
    assert torch.equal(first.network.last.weight, second.network.last.weight)
    assert not torch.equal(first.network.last.weight, other.network.last.weight)


def test_a_run_starts_from_what_another_one_learned(tmp_path: Path) -> None:
    first = run(tmp_path / "first")
    still = replace(RECIPE, learning_rate=0.0)
    options: dict[str, Any] = {"device": "cpu", "precision": "float32", "start": tmp_path / "first"}
    begun = train(coloured(), still, out=tmp_path / "second", stop_after=1, **options)
    # At a rate of zero it stays what it began as: the first run's raw weights.
    for a, *others in zip(*(each.parameters() for each in (first.network, begun.network, begun.averaged)), strict=True):
        assert all(torch.equal(a, b) for b in others)
    assert begun.before == [{"recipe": first.recipe, "seed": first.seed, "epochs": first.epoch}]
    # Resumed, it goes on from its own checkpoint; and what it came from is handed on.
    again = train(coloured(), still, out=tmp_path / "second", resume=True, **options)
    assert again.epoch == RECIPE.epochs and again.before == begun.before
    assert restore(tmp_path / "second").provenance["before"] == begun.before
    third = train(coloured(), still, out=tmp_path / "third", stop_after=1, **(options | {"start": tmp_path / "second"}))
    assert [each["epochs"] for each in third.before] == [first.epoch, RECIPE.epochs]


def test_a_run_on_other_classes_or_of_another_network_is_no_start(tmp_path: Path) -> None:
    run(tmp_path / "first", stop_after=1)
    options: dict[str, Any] = {"device": "cpu", "precision": "float32", "start": tmp_path / "first"}
    data = coloured()
    renamed = ImageSet(data.images, data.labels, tuple(f"other {name}" for name in data.names), data.ids)
    with pytest.raises(UserError, match="was trained on other classes: start from one on the same"):
        train(renamed, RECIPE, out=tmp_path / "second", **options)
    with pytest.raises(UserError, match="trained another network: start from one of the same"):
        train(data, replace(RECIPE, network="conv4-cifar100"), out=tmp_path / "third", **options)
    with pytest.raises(FileNotFoundError, match="there is no training run in"):
        train(data, RECIPE, out=tmp_path / "fourth", **(options | {"start": tmp_path / "nowhere"}))


def test_another_recipe_or_other_classes_cannot_be_resumed(tmp_path: Path) -> None:
    run(tmp_path, stop_after=1)
    with pytest.raises(ValueError, match="another recipe or seed"):
        run(tmp_path, seed=5, resume=True)
    data = coloured()
    renamed = ImageSet(data.images, data.labels, ("e", "f", "g", "h"), data.ids)
    with pytest.raises(ValueError, match="other classes"):
        train(renamed, RECIPE, out=tmp_path, device="cpu", precision="float32", resume=True)


def test_other_images_of_the_same_classes_cannot_be_resumed_or_kept_aside_later(tmp_path: Path) -> None:
    some, rest = coloured().first_per_class(20)
    options: dict[str, Any] = {"device": "cpu", "precision": "float32"}
    train(some, RECIPE, out=tmp_path / "some", test=rest, stop_after=1, **options)
    before = {path.name: path.read_bytes() for path in (tmp_path / "some").iterdir()}
    for data, recipe in ((coloured(), RECIPE), (some, replace(RECIPE, learning_rate=0.5))):
        with pytest.raises(UserError, match=r"other images of these classes|another recipe"):
            train(data, recipe, out=tmp_path / "some", resume=True, **options)
    assert {path.name: path.read_bytes() for path in (tmp_path / "some").iterdir()} == before
    assert restore(tmp_path / "some").provenance["last_images"] == ["76", "77", "78", "79"]
    # A run on more images may begin with one on fewer, and not the other way round.
    train(coloured(), RECIPE, out=tmp_path / "all", start=tmp_path / "some", stop_after=1, **options)
    with pytest.raises(UserError, match="learned from images that are not among these"):
        train(some, RECIPE, out=tmp_path / "again", test=rest, start=tmp_path / "all", **options)


def test_a_resumed_run_keeps_the_arithmetic_that_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_bf16_wins_on_cpu", lambda: True)
    run(tmp_path, stop_after=1, precision="auto")
    monkeypatch.setattr(precision, "_bf16_wins_on_cpu", lambda: False)
    run(tmp_path, stop_after=2, precision="auto", resume=True)
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["precision"] == "bf16-mixed"


def test_a_damaged_checkpoint_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run(tmp_path, stop_after=1)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"checkpoint.pt is damaged"):
        restore(tmp_path)
    with pytest.raises(FileNotFoundError, match="no training run"):
        restore(tmp_path / "elsewhere")


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Give the folder of a run by one process."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([sys.executable, SCRIPT, folder], check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("machines", "each"), [(1, 2), (2, 1)])
def test_two_processes_give_the_loss_curve_of_one_with_the_doubled_batch(
    machines: int, each: int, alone: Path, tmp_path: Path
) -> None:
    together = tmp_path / "two"
    with socket.socket() as free:
        free.bind(("localhost", 0))
        meeting = f"localhost:{free.getsockname()[1]}"
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={machines}", f"--nproc-per-node={each}"]
    launcher += ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}", "--rdzv-id=1"]
    started = [subprocess.Popen([*launcher, SCRIPT, together], stderr=subprocess.PIPE) for _ in range(machines)]
    for process in started:
        assert process.communicate(timeout=200)[0] is None and process.returncode == 0
    first, second = rows(alone), rows(together)
    assert [row["loss"] for row in second] == pytest.approx([row["loss"] for row in first], rel=1e-5)
    assert [row["accuracy"] for row in second] == pytest.approx([row["accuracy"] for row in first])
    one, two = restore_plain(alone), restore_plain(together)
    for name, value in one.items():
        assert torch.allclose(value, two[name], atol=1e-5)


def restore_plain(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoint.pt", weights_only=True)["network"]


def test_weight_decay_acts_on_the_regularised_weights_and_the_last_layer_has_its_own() -> None:
    network = networks.build("vgg-cifar100", 5)
    groups = _optimiser(network, RECIPES["vgg-cifar100"].changed(weight_decay=0.1, last_decay=0.3)).param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert decay[id(network.last.weight)] == 0.3
    assert decay[id(network.dense[2].weight)] == 0.1 and decay[id(network.dense[2].bias)] == 0
    assert decay[id(network.convolutions[0].weight)] == 0
    assert len(decay) == len(list(network.parameters()))


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipes_average_has_forgotten_the_smaller_images_at_its_end(name: str) -> None:
    recipe = RECIPES[name]
    images = 40_000 if name.endswith("cifar100") else 48_000  # of 80 base classes
    steps = recipe.phases[-1].epochs * images // recipe.batch
    assert recipe.averaging**steps < 0.02


def test_precision_is_chosen_by_a_trial_in_a_process_of_its_own() -> None:
    assert precision.choose("float32", "cpu") == "32-true"
    assert precision.choose("bf16", "cpu") == "bf16-mixed"
    assert precision.choose("auto", "cpu") in ("32-true", "bf16-mixed")
    with pytest.raises(ValueError, match="auto, bf16 or float32"):
        precision.choose("half", "cpu")


@pytest.mark.slow
def test_the_data_are_not_the_brake() -> None:
    """Preparing a batch takes under a tenth of the network's step on it, for the smallest network of the paper."""
    from kshot.training.batches import Batches, Normalisation

    random = np.random.default_rng(0)
    images = random.integers(0, 256, (1280, 32, 32, 3)).astype(np.uint8)
    data = ImageSet(images, np.arange(1280) % 80, tuple(map(str, range(80))), tuple(map(str, range(1280))))
    recipe = RECIPES["vgg-cifar100"]
    batches = Batches(
        data, size=32, batch=128, augmentation=recipe.augmentation, normalisation=Normalisation.of(images), seed=0
    )
    network = networks.build("vgg-cifar100", 80).to(memory_format=torch.channels_last)
    preparing, computing = [], []
    epoch = batches.epoch(0)
    for _ in range(8):
        start = time.perf_counter()
        batch = next(epoch)
        ready = time.perf_counter()
        nn.functional.cross_entropy(network(batch.images), batch.labels).backward()
        preparing.append(ready - start)
        computing.append(time.perf_counter() - ready)
    assert np.median(preparing) < 0.1 * np.median(computing)
