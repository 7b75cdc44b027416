"""Learning from a teacher: the loss against SciPy's, and runs that learn what the network they start from knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

torch = pytest.importorskip("torch")
from lightning_fabric import Fabric  # noqa: E402

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.errors import UserError  # noqa: E402
from kshot.training import networks  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.batches import Normalisation  # noqa: E402
from kshot.training.distillation import Distillation, lesson  # noqa: E402
from kshot.training.networks.resnet import ResNet  # noqa: E402
from kshot.training.recipe import Phase, Recipe  # noqa: E402
from kshot.training.trainer import train  # noqa: E402

pytestmark = pytest.mark.train
RECIPE = Recipe("small", (Phase(4, 8),), "sgd", 0.05, 16, 1e-3, averaging=0.9, augmentation=Augmentation(shift=0.1))
TAUGHT = replace(RECIPE, distillation=Distillation(weight=1.0, temperature=2.0))
OPTIONS: dict[str, Any] = {"device": "cpu", "precision": "float32"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    build = lambda classes: ResNet(classes, size=8, widths=(8, 16), blocks=(1, 1))  # noqa: E731
    monkeypatch.setitem(networks.NETWORKS, "small", build)


def coloured(count: int = 320) -> ImageSet:
    """Four classes of noisy images that differ in brightness."""
    labels = np.arange(count) % 4
    noise = np.random.default_rng(0).integers(0, 60, (count, 8, 8, 3))
    images = (noise + 60 * labels[:, None, None, None]).astype(np.uint8)
    return ImageSet(images, labels, ("a", "b", "c", "d"), tuple(map(str, range(count))))


def drawn(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    logits, taught = torch.from_numpy(3 * random.standard_normal((2, 6, 5)))
    return logits, torch.from_numpy(random.integers(0, 5, 6)), taught


@pytest.mark.parametrize(("weight", "temperature"), [(0.5, 4.0), (1.0, 1.0), (0.2, 0.7)])
def test_the_loss_is_the_labels_and_the_teachers_in_their_parts(weight: float, temperature: float) -> None:
    logits, labels, taught = drawn()
    hard = -log_softmax(logits.numpy(), axis=1)[np.arange(6), labels].mean()
    soft = rel_entr(softmax(taught / temperature, axis=1), softmax(logits / temperature, axis=1)).sum(axis=1).mean()
    expected = (1 - weight) * hard + weight * temperature**2 * soft
    assert Distillation(weight, temperature)(logits, labels, taught).item() == pytest.approx(expected, rel=1e-12)


def test_the_gradient_keeps_its_size_at_any_temperature() -> None:
    """With high temperatures it is that of half the squared distance of the centred logits over C̃ (Hinton et al.)."""
    logits, labels, taught = drawn()
    logits.requires_grad_()
    Distillation(1.0, 1e6)(logits, labels, taught).backward()
    apart = (logits - taught).detach()
    expected = (apart - apart.mean(dim=1, keepdim=True)) / apart.numel()
    assert logits.grad is not None and torch.allclose(logits.grad, expected, rtol=1e-3, atol=1e-6)


def test_a_lesson_is_the_mean_of_the_image_and_its_mirror_image() -> None:
    data, fabric = coloured(40), Fabric(accelerator="cpu", devices=1)
    network, normalisation = networks.build("small", 4), Normalisation.of(data.images)
    images = torch.from_numpy(data.images)
    taught = lesson(fabric, network, images, normalisation)
    with torch.no_grad():
        plain, mirrored = (network.eval()(normalisation(way)) for way in (images, images.flip(2)))
    assert not torch.allclose(plain, mirrored)
    assert torch.allclose(taught, (plain + mirrored) / 2, atol=1e-6)
    assert torch.allclose(taught, lesson(fabric, network, images.flip(2), normalisation), atol=1e-6)


def test_a_student_learns_what_its_teacher_says_of_each_image(tmp_path: Path) -> None:
    """With the whole weight on the teacher, labels that are wrong do no harm: it still tells the classes apart."""
    data = coloured()
    train(data, RECIPE, out=tmp_path / "teacher", **OPTIONS)
    wrong = ImageSet(data.images, (data.labels + 1) % 4, data.names, data.ids)
    student = train(wrong, TAUGHT, out=tmp_path / "student", start=tmp_path / "teacher", **OPTIONS)
    misled = train(wrong, RECIPE, out=tmp_path / "misled", start=tmp_path / "teacher", **OPTIONS)
    images = Normalisation.of(data.images)(torch.from_numpy(data.images))
    for trained, right in ((student, True), (misled, False)):
        with torch.no_grad():
            said = trained.network(images).argmax(dim=1).numpy()
        assert ((said == data.labels).mean() > 0.9) == right


def test_a_student_resumes_exactly_and_need_not_be_told_again_where_it_started(tmp_path: Path) -> None:
    data = coloured()
    train(data, RECIPE, out=tmp_path / "teacher", **OPTIONS)
    whole = train(data, TAUGHT, out=tmp_path / "whole", start=tmp_path / "teacher", **OPTIONS)
    train(data, TAUGHT, out=tmp_path / "broken", start=tmp_path / "teacher", stop_after=2, **OPTIONS)
    resumed = train(data, TAUGHT, out=tmp_path / "broken", resume=True, **OPTIONS)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name
    assert resumed.recipe["distillation"] == {"weight": 1.0, "temperature": 2.0}
    assert "distillation" not in RECIPE.to_json()  # checkpoints from before there was any can be resumed


@pytest.mark.parametrize("options", [{}, {"resume": True}])
def test_a_student_without_a_teacher_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="learns from the network that it starts from: say which by --start"):
        train(coloured(), TAUGHT, out=tmp_path / "run", **OPTIONS, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("weight", "temperature"), [(0.0, 4.0), (1.5, 4.0), (0.5, 0.0), (float("nan"), 1.0)])
def test_parts_and_temperatures_that_make_no_sense_are_refused(weight: float, temperature: float) -> None:
    with pytest.raises(UserError, match=r"the teacher's part|the temperature of distillation"):
        Distillation(weight, temperature)
