"""Augmentation: each change is what it says, and nothing changes without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.batches import Batches, Normalisation, resized  # noqa: E402
from kshot.training.recipe import RECIPES, Phase, Recipe  # noqa: E402

pytestmark = pytest.mark.train
NONE = Augmentation(flip=False, shift=0.0, colour=0.0, lighting=0.0)


def pixels(count: int = 6, side: int = 8) -> torch.Tensor:
    return torch.randint(0, 256, (count, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def draws(augmentation: Augmentation, count: int = 6):
    return augmentation.draw(count, torch.Generator().manual_seed(2))


def test_without_any_change_the_images_stay() -> None:
    images = pixels()
    assert (NONE(images, draws(NONE)) == images).all()


def test_a_flip_mirrors_those_that_were_drawn() -> None:
    flip, images = replace(NONE, flip=True), pixels()
    drawn = draws(flip)
    assert 0 < drawn.flip.sum() < 6
    for out, image, flipped in zip(flip(images, drawn), images, drawn.flip, strict=True):
        assert (out == (image.flip(1) if flipped else image)).all()


@pytest.mark.parametrize("fill", ["zero", "reflect"])
def test_a_shift_is_pasting_into_a_larger_frame_and_cutting_out_the_centre(fill: str) -> None:
    shift, images = replace(NONE, shift=0.25, fill=fill), pixels()  # up to 2 of 8 pixels
    drawn = draws(shift)
    mode = {"zero": "constant", "reflect": "reflect"}[fill]
    for out, image, (rows, columns) in zip(
        shift(images, drawn), images, (drawn.shift * 2).round().int().tolist(), strict=True
    ):
        frame = np.pad(image.numpy(), ((2, 2), (2, 2), (0, 0)), mode=mode)
        assert (out.numpy() == frame[2 + rows : 10 + rows, 2 + columns : 10 + columns]).all()


def test_brightness_contrast_saturation_and_lighting_act_on_what_they_name() -> None:
    augmentation = replace(NONE, colour=0.2, lighting=0.1)
    images = pixels().float() * 0.3 + 80  # far from black and white, so that nothing is cut off
    drawn = draws(augmentation)
    zero = torch.zeros_like(drawn.colour)

    def changed(brightness=0.0, contrast=0.0, saturation=0.0, lighting=0.0):
        colour = zero.clone()
        colour[:] = torch.tensor([brightness, contrast, saturation])
        return augmentation(images, replace(drawn, colour=colour, lighting=zero + lighting))

    assert torch.allclose(changed(brightness=1.0), images * 1.2, atol=1e-3)
    contrast = changed(contrast=1.0)
    assert torch.allclose(contrast.mean((1, 2, 3)), images.mean((1, 2, 3)), atol=1e-2)
    assert torch.allclose(contrast.std((1, 2, 3)), 1.2 * images.std((1, 2, 3)), rtol=1e-3)
    grey = torch.tensor([0.299, 0.587, 0.114])
    saturated = changed(saturation=-1.0)
    assert torch.allclose(saturated @ grey, images @ grey, atol=1e-2)
    assert saturated.std(-1).mean() < images.std(-1).mean()
    lit = changed(lighting=1.0) - images
    assert torch.allclose(lit, lit[:, :1, :1], atol=1e-3) and lit.abs().max() > 1


def test_values_stay_between_black_and_white() -> None:
    strong = Augmentation(colour=0.9, lighting=3.0)
    out = strong(pixels(64), draws(strong, 64))
    assert out.min() >= 0 and out.max() <= 255


def data(count: int = 40) -> ImageSet:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)
    return ImageSet(images, np.arange(count) % 4, ("a", "b", "c", "d"), tuple(map(str, range(count))))


def batches(**changes) -> Batches:
    images = data()
    options = {
        "size": 8,
        "batch": 8,
        "augmentation": Augmentation(),
        "seed": 3,
        "normalisation": Normalisation.of(images.images),
    }
    return Batches(images, **(options | changes))


def test_processes_share_each_batch_exactly() -> None:
    whole = list(batches().epoch(5))
    shares = [list(batches(rank=rank, world=2).epoch(5)) for rank in range(2)]
    for each, first, second in zip(whole, *shares, strict=True):
        for part, *halves in zip(each, first, second, strict=True):
            assert torch.equal(part, torch.cat(halves))


def test_epoch_and_seed_alone_decide_the_batches() -> None:
    def first(epoch: int, **changes) -> torch.Tensor:
        return next(batches(**changes).epoch(epoch)).images

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))
    assert not torch.equal(first(1), first(1, seed=4))


def test_an_epoch_shows_every_image_once() -> None:
    drawn = list(batches().epoch(0))
    rows = torch.cat([batch.rows for batch in drawn])
    assert sorted(rows.tolist()) == list(range(40))
    assert torch.equal(torch.cat([batch.labels for batch in drawn]), torch.from_numpy(data().labels)[rows])


def test_normalisation_gives_zero_mean_and_unit_variance_per_channel() -> None:
    images = data().images
    out = Normalisation.of(images)(torch.from_numpy(images))
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(out.std((0, 2, 3)), torch.ones(3), atol=1e-3)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_resizing_averages_and_leaves_the_right_size_alone() -> None:
    images = data().images
    assert resized(images, 8).numpy() is not None and (resized(images, 8).numpy() == images).all()
    small = resized(np.full((3, 8, 8, 3), 100, np.uint8), 4)
    assert small.shape == (3, 4, 4, 3) and (small == 100).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"batch": 9, "world": 2}, "cannot be shared equally"), ({"batch": 64}, "fewer than one batch")],
)
def test_impossible_batches_are_refused(changes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        batches(**changes)


def test_the_rate_rises_once_and_falls_to_zero_over_the_whole_plan() -> None:
    recipe = Recipe("vgg-cifar100", (Phase(2, 16), Phase(1, 32)), "adam", 0.1, 8, 0.0, warmup=0.25)
    # Two epochs at 16 px cost half of one at 32 px: progress counts pixels.
    assert recipe.progress(2, 0.0) == pytest.approx(1 / 3)
    assert recipe.rate(0.0) == 0 and recipe.rate(0.25) == pytest.approx(0.1) and recipe.rate(1.0) == pytest.approx(0)
    assert [recipe.phase_of(epoch).size for epoch in range(3)] == [16, 16, 32]


@pytest.mark.parametrize("epochs", [1, 2, 7, 48, 100])
def test_a_recipe_stretches_to_any_number_of_epochs(epochs: int) -> None:
    for recipe in RECIPES.values():
        stretched = recipe.changed(epochs=epochs)
        assert stretched.epochs == epochs
        # What it ends with is what it is for: the whole depth, at the size that the network is exported for.
        assert replace(stretched.phases[-1], epochs=1) == replace(recipe.phases[-1], epochs=1)


def test_a_recipe_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="no 'speed'"):
        RECIPES["vgg-cifar100"].changed(speed=3)
