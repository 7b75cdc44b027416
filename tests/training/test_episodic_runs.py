"""Episodes come from base classes alone; an episodic run learns, resumes exactly and repeats."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.datasets.splits import open_data  # noqa: E402
from kshot.training import networks  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.batches import Normalisation  # noqa: E402
from kshot.training.episodic import METHODS, methods  # noqa: E402
from kshot.training.episodic.episodes import Episodes  # noqa: E402
from kshot.training.episodic.meta_lstm import MetaLSTM  # noqa: E402
from kshot.training.episodic.methods import restore_method  # noqa: E402
from kshot.training.episodic.recipe import LEARNER, EpisodicRecipe, recipe_for  # noqa: E402
from kshot.training.episodic.trainer import train_episodic  # noqa: E402
from kshot.training.networks.conv4 import Conv4  # noqa: E402

pytestmark = pytest.mark.train
PLAIN = Augmentation(flip=False, shift=0.0, colour=0.0, lighting=0.0)
UNCHANGED = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    monkeypatch.setitem(networks.NETWORKS, "tiny", lambda classes: Conv4(classes, size=16, width=8))
    monkeypatch.setattr(methods, "MetaLSTM", partial(MetaLSTM, width=4, hidden=4))


def striped(classes: int = 8, count: int = 12, seed: int = 0) -> ImageSet:
    """Noisy images whose classes differ in colour."""
    random = np.random.default_rng(seed)
    colours = np.random.default_rng(99).integers(0, 200, (classes, 1, 1, 3))
    labels = np.arange(classes * count) % classes
    images = (random.integers(0, 55, (classes * count, 16, 16, 3)) + colours[labels]).astype(np.uint8)
    return ImageSet(images, labels, tuple(f"c{n}" for n in range(classes)), tuple(map(str, range(len(labels)))))


def recipe(method: str = "protonet", **changes) -> EpisodicRecipe:
    network = LEARNER if method == "meta-lstm" else "tiny"
    plain = EpisodicRecipe(
        method, network, 16, 3, 2, queries=2, epochs=2, episodes=3, test_tasks=4, averaging=0.9,
        augmentation=Augmentation(shift=0.1), clip=0.25 if method == "meta-lstm" else 0.0,
    )  # fmt: skip
    return plain.changed(**changes)


def run(out: Path, plan: EpisodicRecipe, **options):
    return train_episodic(
        striped(), plan, out=out, **({"test": striped(seed=1), "device": "cpu", "precision": "float32"} | options)
    )


def rows(out: Path) -> list[dict[str, float]]:
    with (out / "log.csv").open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def numbered(classes: int = 6, count: int = 9) -> ImageSet:
    """Images whose red is their class, green and blue their number: an episode can be read back from its pixels."""
    labels = np.repeat(np.arange(classes), count)
    images = np.zeros((len(labels), 16, 16, 3), np.uint8)
    images[..., 0], images[..., 1] = labels[:, None, None], np.arange(len(labels))[:, None, None]
    return ImageSet(images, labels, tuple("abcdef")[:classes], tuple(map(str, range(len(labels)))))


def test_an_episode_has_the_asked_numbers_class_after_class_and_no_image_twice() -> None:
    plan = recipe(ways=4, shots=2, queries=3, episodes=5, augmentation=PLAIN)
    episodes = Episodes(numbered(), recipe=plan, normalisation=UNCHANGED, seed=0)
    drawn = [episode for step in episodes.epoch(0) for episode in step]
    assert len(drawn) == len(episodes) == 5
    for support, query in drawn:
        (first, own), (second, others) = (part[:, :2, 0, 0].numpy().T for part in (support, query))
        classes = first[::2]
        assert len(set(classes)) == 4 and (first == np.repeat(classes, 2)).all()
        assert (second == np.repeat(classes, 3)).all()
        assert len({*own, *others}) == 4 * 5


def test_episodes_are_of_the_given_classes_alone_and_the_seed_decides_them() -> None:
    base = numbered().select(["b", "d", "e", "f"])
    held_out = {0, 2}  # red of the classes a and c
    plan = recipe(episodes=20, augmentation=PLAIN)
    seen = []
    for seed in (0, 0, 1):
        episodes = Episodes(base, recipe=plan, normalisation=UNCHANGED, seed=seed)
        drawn = [
            torch.cat(episode)[:, :2, 0, 0]
            for number in range(3)
            for step in episodes.epoch(number)
            for episode in step
        ]
        seen.append(torch.stack(drawn))
    reds = set(torch.cat(seen)[..., 0].flatten().int().tolist())
    assert reds == {1, 3, 4, 5} and not reds & held_out
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0][:20], seen[0][20:40])


def test_processes_share_the_episodes_of_a_step() -> None:
    plan, data = recipe(batch=4, augmentation=Augmentation(shift=0.2)), numbered()
    make = lambda **share: list(Episodes(data, recipe=plan, normalisation=UNCHANGED, seed=3, **share).epoch(1))  # noqa: E731
    whole, halves = make(), [make(rank=rank, world=2) for rank in (0, 1)]
    for step in range(3):
        for one, other in zip(whole[step], halves[0][step] + halves[1][step], strict=True):
            assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    with pytest.raises(ValueError, match="cannot be shared equally by 3"):
        make(rank=0, world=3)


@pytest.mark.data
def test_no_held_out_class_of_cifar_comes_into_an_episode(image_data: Path) -> None:
    split = open_data(image_data / "cifar-100-python")
    assert split.new is not None
    plan = recipe_for("protonet", "cifar100", ways=20, shots=5)
    episodes = Episodes(split.base, recipe=plan, normalisation=UNCHANGED, seed=0)
    tasks = episodes.tasks(0)
    used = {split.base.ids[row] for row in np.concatenate([tasks.support, tasks.query], axis=1).ravel()}
    assert not used & set(split.new.ids) and not set(split.base.names) & set(split.new.names)
    assert np.array_equal(episodes.images.numpy(), split.base.images)


@pytest.mark.parametrize("method", METHODS)
def test_two_runs_with_one_seed_are_equal_though_one_was_broken_off(method: str, tmp_path: Path) -> None:
    plan = recipe(method)
    whole = run(tmp_path / "whole", plan, seed=1)
    run(tmp_path / "broken", plan, seed=1, stop_after=1)
    resumed = run(tmp_path / "broken", plan, seed=1, resume=True)
    other = run(tmp_path / "other", plan, seed=2, stop_after=1)
    again = restore_method(tmp_path / "whole")
    for name, value in whole.network.state_dict().items():
        for equal in (resumed, again):
            assert torch.equal(value, equal.network.state_dict()[name]), name
            assert torch.equal(whole.averaged.state_dict()[name], equal.averaged.state_dict()[name]), name
    first = next(iter(whole.network.parameters()))
    assert not torch.equal(first, next(iter(other.network.parameters())))
    assert [row["loss"] for row in rows(tmp_path / "whole")] == [row["loss"] for row in rows(tmp_path / "broken")]
    assert again.names == striped().names and again.recipe["method"] == method


def test_it_leaves_log_curves_and_checkpoint(tmp_path: Path) -> None:
    lines: list[str] = []
    run(tmp_path, recipe(), say=lines.append)
    assert len(rows(tmp_path)) == len(lines) == 2 and "test, averaged weights" in lines[-1]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv", "curves.png", "recipe.json", "checkpoint.pt"}


@pytest.mark.parametrize(
    # The Meta-Learner LSTM has an optimiser to learn beside the network: more episodes, of three classes and not five.
    ("method", "epochs", "accuracy"),
    [("protonet", 4, 0.4), ("matching", 4, 0.4), ("matching-fce", 4, 0.4), ("meta-lstm", 12, 0.6)],
)
def test_every_method_learns(method: str, epochs: int, accuracy: float, tmp_path: Path) -> None:
    run(tmp_path, recipe(method, epochs=epochs, episodes=20, learning_rate=5e-3, test_tasks=10))
    log = rows(tmp_path)
    assert log[-1]["loss"] < log[0]["loss"] and log[-1]["accuracy"] > log[0]["accuracy"]
    assert log[-1]["test_accuracy"] > accuracy


def test_gradients_are_clipped_to_the_recipes_norm(tmp_path: Path, monkeypatch) -> None:
    norms: list[float] = []
    step = torch.optim.Adam.step

    def watched(self, *args, **kwargs):
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norms.append(float(torch.cat([grad.flatten() for grad in grads]).norm()))
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    run(tmp_path / "free", recipe(epochs=1))
    assert max(norms) > 0.02
    norms.clear()
    run(tmp_path / "clipped", recipe(epochs=1, clip=0.01))
    assert max(norms) == pytest.approx(0.01, rel=1e-3)


def test_a_step_of_several_episodes_averages_their_gradients(tmp_path: Path) -> None:
    run(tmp_path, recipe(epochs=1, batch=2))
    assert rows(tmp_path)[0]["images_per_second"] > 0
    with pytest.raises(ValueError, match="too few for episodes of 30 ways"):
        run(tmp_path / "wide", recipe(ways=30))


def test_the_default_recipes_follow_the_papers() -> None:
    proto, meta = recipe_for("protonet", "cifar100", shots=1), recipe_for("meta-lstm", "miniimagenet", shots=5)
    assert (proto.network, proto.size, proto.ways, proto.clip) == ("conv4-cifar100", 32, 20, 0.0)
    assert (meta.network, meta.size, meta.ways, meta.clip, meta.learning_rate) == (LEARNER, 84, 5, 0.25, 1e-3)
    assert recipe_for("matching", "cifar100", ways=5).ways == 5
    with pytest.raises(ValueError, match="there is no episodic method 'maml'"):
        recipe_for("maml", "cifar100")
