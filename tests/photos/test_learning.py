"""Learn, add, remove, rename: the model that comes out depends on the photographs alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kshot
from kshot import Backbone
from kshot.concepts import Calibration, Temperature
from kshot.datasets.photographs import PhotographError
from kshot.errors import FileFormatError, UserError
from kshot.photos import Learned, PhotoModel, add, learn, remove, rename
from kshot.photos.choosing import fit_on_base_images
from kshot.photos.fitting import Calibrations, backbone_prior
from kshot.photos.predicting import predict, predict_stream
from kshot.training.backbone_file import BackboneContent, read_backbone

CURVE = Temperature((1, 5, 10), (3.0, 2.0, 1.5))
CALIBRATIONS = Calibrations(Calibration(10.0, CURVE), Calibration(100.0, CURVE, setting="joint"), "base images")


@pytest.fixture
def learned(feeder: Path, small_backbone: Path) -> Learned:
    return learn(feeder, backbone=small_backbone, calibrations=CALIBRATIONS)


def same(a: PhotoModel, b: PhotoModel) -> None:
    """Check that two models are equal to the last bit."""
    assert (a.classes, a.examples.digests, a.set_aside, a.folds) == (
        b.classes,
        b.examples.digests,
        b.set_aside,
        b.folds,
    )
    pairs = [(a.examples.X, b.examples.X), (a.examples.labels, b.examples.labels), (a.left_out, b.left_out)]
    for first, second in ((a.closed, b.closed), (a.joint, b.joint)):
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert first.temperature == second.temperature and first.scale == second.scale
            pairs += [(first.weights, second.weights), (first.bias, second.bias)]
    for first, second in pairs:
        np.testing.assert_array_equal(first, second)


def part(feeder: Path, target: Path, *names: str) -> Path:
    """Copy some photographs, class/file or whole classes, to a folder of their own."""
    for name in names:
        source = feeder / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
    return target


def test_probabilities_are_those_of_the_estimator_closed_and_joint(learned: Learned, feeder: Path) -> None:
    model, network = learned.model, learned.model.load_backbone()
    X, y = model.examples.X, np.array(model.examples.names)
    prior = backbone_prior(network, X)
    assert CALIBRATIONS.closed is not None and CALIBRATIONS.joint is not None
    closed = kshot.KShotClassifier(prior=CALIBRATIONS.closed.apply(prior)).fit(X, y)
    new = np.random.default_rng(5).normal(0, 1, (20, 12)).astype(np.float32)
    found = model.probabilities(new, network, closed=True)
    np.testing.assert_allclose(found.classes, closed.predict_proba(new), atol=1e-5)
    assert not found.other.any()
    old = model.old_rows(network)
    assert network.base_weights is not None and network.base_bias is not None
    joint = kshot.KShotClassifier(
        prior=CALIBRATIONS.joint.apply(prior),
        base_weights=network.base_weights[old],
        base_bias=network.base_bias[old],
        base_classes=[f"old {row}" for row in old],
    ).fit(X, y)
    expected = joint.predict_proba(new)
    found = model.probabilities(new, network)
    np.testing.assert_allclose(found.classes, expected[:, len(old) :], atol=1e-5)
    np.testing.assert_allclose(found.other, expected[:, : len(old)].sum(axis=1), atol=1e-5)
    assert found.most_like is not None
    np.testing.assert_array_equal(found.most_like, old[expected[:, : len(old)].argmax(axis=1)])


def test_a_model_is_read_as_it_was_written(learned: Learned, tmp_path: Path) -> None:
    learned.model.save(tmp_path / "m.kshot")
    again = PhotoModel.load(tmp_path / "m.kshot")
    same(learned.model, again)
    assert vars(again.backbone) == vars(learned.model.backbone)
    assert again.calibration == learned.model.calibration and again.examples.files == learned.model.examples.files


def test_learning_twice_writes_the_same_bytes(feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        learn(feeder, backbone=small_backbone, calibrations=CALIBRATIONS).model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("swapped", [False, True])
def test_adding_in_any_order_is_learning_everything_at_once(
    learned: Learned, feeder: Path, small_backbone: Path, tmp_path: Path, swapped: bool
) -> None:
    first = part(feeder, tmp_path / "first", "sparrow/0.png", "sparrow/3.png", "dunnock")
    second = part(feeder, tmp_path / "second", "robin", "sparrow/1.png", "sparrow/2.png")
    if swapped:
        first, second = second, first
    begun = learn(first, backbone=small_backbone, calibrations=CALIBRATIONS)
    begun.model.save(tmp_path / "m.kshot")
    same(add(PhotoModel.load(tmp_path / "m.kshot"), second).model, learned.model)


def test_a_photograph_that_is_known_already_is_passed_over(learned: Learned, feeder: Path, tmp_path: Path) -> None:
    again = add(learned.model, part(feeder, tmp_path / "again", "robin"))
    assert len(again.read) == 0 and {one.reason for one in again.skipped} == {"already learned"}
    same(again.model, learned.model)


def test_removing_is_never_having_learned(learned: Learned, feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    two = learn(
        part(feeder, tmp_path / "two", "sparrow", "dunnock"), backbone=small_backbone, calibrations=CALIBRATIONS
    )
    same(remove(learned.model, "robin"), two.model)


def test_renaming_is_having_been_called_so(learned: Learned, feeder: Path, small_backbone: Path) -> None:
    (feeder / "dunnock").rename(feeder / "zebra finch")
    expected = learn(feeder, backbone=small_backbone, calibrations=CALIBRATIONS).model
    found = rename(learned.model, "dunnock", "zebra finch")
    assert found.classes == expected.classes == ("robin", "sparrow", "zebra finch")
    assert found.examples.digests == expected.examples.digests and found.set_aside == expected.set_aside
    for head in ("closed", "joint"):
        np.testing.assert_allclose(getattr(found, head).weights, getattr(expected, head).weights, atol=2e-6)
    np.testing.assert_allclose(found.left_out, expected.left_out, atol=2e-6)


def test_names_that_are_not_there_or_taken_are_refused(learned: Learned) -> None:
    with pytest.raises(UserError, match=r"there is no class sparow. Did you mean sparrow\?"):
        remove(learned.model, "sparow")
    with pytest.raises(UserError, match="there is a class of that name already"):
        rename(learned.model, "robin", "sparrow")
    with pytest.raises(UserError, match="not empty"):
        rename(learned.model, "robin", " ")


def test_one_class_is_learned_beside_the_networks_own(feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    one = learn(part(feeder, tmp_path / "one", "robin"), backbone=small_backbone, calibrations=CALIBRATIONS).model
    assert one.closed is None and one.joint is not None
    (answer,) = predict(one, [feeder / "robin" / "0.png"])
    assert {name for name, _ in answer.ranking} == {"robin", None}
    with pytest.raises(UserError, match=r"one class only \(robin\)"):
        predict(one, [feeder / "robin" / "0.png"], closed=True)
    with pytest.raises(UserError, match="nothing would be left"):
        remove(one, "robin")


def test_the_same_photograph_counts_once_and_in_two_classes_is_named(feeder: Path, small_backbone: Path) -> None:
    shutil.copy(feeder / "robin" / "0.png", feeder / "robin" / "copy.png")
    shutil.copy(feeder / "robin" / "1.png", feeder / "sparrow" / "stray.png")
    found = learn(feeder, backbone=small_backbone, calibrations=CALIBRATIONS)
    assert found.read.counts == {"dunnock": 3, "robin": 2, "sparrow": 5}
    assert [(one.path.name, one.reason) for one in found.skipped] == [("copy.png", "the same photograph as 0.png")]
    assert found.model.examples.in_two_classes() == [[("robin", "1.png"), ("sparrow", "stray.png")]]


def test_without_a_calibration_the_numbers_are_chosen_by_leaving_out(feeder: Path, small_backbone: Path) -> None:
    model = learn(feeder, backbone=small_backbone).model
    assert model.calibration["source"] == "leave-one-out"
    assert model.closed is not None and model.joint is not None
    # Chosen anew with every change, and so again the same in any order.
    same(remove(add(model, feeder).model, "robin"), remove(model, "robin"))


def test_from_single_photographs_nothing_can_be_chosen(feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    single = part(feeder, tmp_path / "single", "robin/0.png", "sparrow/0.png")
    with pytest.raises(UserError, match="--base-images"):
        learn(single, backbone=small_backbone)
    model = learn(single, backbone=small_backbone, calibrations=CALIBRATIONS).model
    assert np.isnan(model.left_out).all()


def test_a_backbone_without_base_classes_is_closed(feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    whole = read_backbone(small_backbone)
    bare = BackboneContent(name="bare", onnx=whole.onnx, preprocessing=whole.preprocessing, dim=whole.dim)
    Backbone(bare).save(tmp_path / "bare.safetensors")
    model = learn(feeder, backbone=tmp_path / "bare.safetensors").model
    assert model.joint is None
    (answer,) = predict(model, [feeder / "robin" / "0.png"])
    assert answer.other == 0 and answer.name == "robin"
    with pytest.raises(UserError, match="one class only"):
        learn(part(feeder, tmp_path / "one", "robin"), backbone=tmp_path / "bare.safetensors")


def test_where_all_of_the_networks_classes_are_the_users_nothing_is_something_else(
    feeder: Path, small_backbone: Path, tmp_path: Path
) -> None:
    whole, network = read_backbone(small_backbone), Backbone.load(small_backbone)
    means = [network.features(sorted((feeder / name).iterdir())).mean(axis=0) for name in ("robin", "sparrow")]
    own = replace(whole, base_weights=30 * np.stack(means), base_bias=None, base_names=("robin", "sparrow"))
    Backbone(own).save(tmp_path / "own.safetensors")
    for classes in (("robin", "sparrow"), ("robin", "sparrow", "dunnock")):
        known = part(feeder, tmp_path / f"known{len(classes)}", *classes)
        model = learn(known, backbone=tmp_path / "own.safetensors").model
        assert model.joint is None and {row for row, _ in model.set_aside} == {0, 1}
        (answer,) = predict(model, [feeder / "robin" / "0.png"])
        assert answer.name == "robin" and answer.other == 0
    twice = replace(own, base_weights=np.stack([means[0], 1.01 * means[0]]), base_names=("robin", "redbreast"))
    Backbone(twice).save(tmp_path / "twice.safetensors")
    alone = part(feeder, tmp_path / "alone", "robin")
    with pytest.raises(UserError, match="one class alone"):
        learn(alone, backbone=tmp_path / "twice.safetensors")


def test_a_photograph_without_finite_features_is_named_and_the_others_answered(
    learned: Learned, feeder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = learned.model.load_backbone()
    photographs = sorted((feeder / "sparrow").iterdir())
    stream = network.stream

    def overflowing(*arguments: Any, **options: Any) -> Iterator[Any]:
        for batch in stream(*arguments, **options):
            batch.features[batch.rows == 1] = np.nan
            yield batch

    monkeypatch.setattr(network, "stream", overflowing)
    found = dict(predict_stream(learned.model, photographs, network))
    assert isinstance(found[1], PhotographError) and "no finite features" in str(found[1])
    assert [found[place].name for place in (0, 2, 3)] == ["sparrow"] * 3
    with pytest.raises(PhotographError, match="no finite features"):
        predict(learned.model, photographs, backbone=network)


def test_a_network_whose_classes_have_no_names_is_calibrated_by_their_numbers(
    small_backbone: Path, tmp_path: Path, paint_class
) -> None:
    whole = replace(read_backbone(small_backbone), base_names=None)
    network = Backbone(whole)
    for seed in range(6):
        paint_class(tmp_path / "base" / str(seed), seed, 4)
    found = fit_on_base_images(network, tmp_path / "base", tasks=10)
    assert found.closed is not None and found.source == "base images"


def test_another_backbone_is_refused_and_a_missing_one_asked_for(
    learned: Learned, small_backbone: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.safetensors"
    shutil.copy(small_backbone, moved)
    assert learned.model.load_backbone(moved).hash == learned.model.backbone.hash
    with pytest.raises(UserError, match="is not the backbone that this model was learned with"):
        learned.model.load_backbone("vgg-cifar100")
    gone = PhotoModel(
        learned.model.examples,
        type(learned.model.backbone)("small", learned.model.backbone.hash, str(tmp_path / "gone.safetensors")),
        learned.model.closed,
        learned.model.joint,
    )
    with pytest.raises(UserError, match="--backbone FILE"):
        gone.load_backbone()


def test_an_onnx_file_is_found_again_with_its_preprocessing(feeder: Path, small_backbone: Path, tmp_path: Path) -> None:
    content = read_backbone(small_backbone)
    (tmp_path / "net.onnx").write_bytes(content.onnx.tobytes())
    found = learn(feeder, backbone=tmp_path / "net.onnx", preprocessing=content.preprocessing).model
    found.save(tmp_path / "m.kshot")
    assert PhotoModel.load(tmp_path / "m.kshot").load_backbone().preprocessing == content.preprocessing


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, 1000, -1])
def test_a_file_that_ends_early_is_refused(learned: Learned, tmp_path: Path, keep: int) -> None:
    learned.model.save(tmp_path / "m.kshot")
    whole = (tmp_path / "m.kshot").read_bytes()
    (tmp_path / "m.kshot").write_bytes(whole[:keep])
    with pytest.raises(FileFormatError, match=r"m\.kshot"):
        PhotoModel.load(tmp_path / "m.kshot")


def test_a_file_of_a_newer_format_says_how_to_upgrade(learned: Learned, tmp_path: Path, monkeypatch) -> None:
    from kshot.photos import model_file

    monkeypatch.setattr(model_file, "VERSION", model_file.VERSION + 1)
    learned.model.save(tmp_path / "new.kshot")
    monkeypatch.undo()
    with pytest.raises(
        FileFormatError, match=r"was written by kshot .* \(format 2\); this is .* \(format 1\). Upgrade"
    ):
        PhotoModel.load(tmp_path / "new.kshot")


@pytest.mark.slow
def test_base_images_calibrate_a_backbone_of_ones_own(
    feeder: Path, small_backbone: Path, tmp_path: Path, paint_class
) -> None:
    with pytest.raises(UserError, match="at least 5 are needed"):
        learn(feeder, backbone=small_backbone, base_images=feeder)
    network = Backbone.load(small_backbone)
    assert network.base_names is not None
    for seed, name in enumerate(network.base_names):
        paint_class(tmp_path / "base" / name, 100 + seed, 4)
    fitted = fit_on_base_images(network, tmp_path / "base", tasks=10)
    # Seven classes are too few to play new, unrelated and old ones.
    assert fitted.source == "base images" and fitted.closed is not None and fitted.joint is None
    model = learn(feeder, backbone=small_backbone, calibrations=fitted).model
    # They are kept: the base images are not needed again.
    assert remove(model, "robin").calibration == model.calibration == fitted.to_json()
