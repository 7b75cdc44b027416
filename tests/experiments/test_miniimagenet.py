"""The plan of miniImageNet takes one network or several, runs what they allow, and names what they do not."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

import kshot
from kshot.errors import UserError
from kshot.experiments import figure2 as figure2_module
from kshot.experiments.figure7 import NAMED, closeness
from kshot.experiments.miniimagenet import CLAIMS, PARTS, miniimagenet
from kshot.experiments.networks import BUNDLED, Networks, load_networks
from kshot.experiments.plan import carry_out, choose
from kshot.experiments.result import Options
from kshot.experiments.table1 import competitors, table1

OPTIONS = Options(shots=(1, 5), tasks=20, queries=5, nuts=False)
BASE = list(dict.fromkeys(name for group in NAMED.values() for name in group))
BASE += [f"class {i}" for i in range(16 - len(BASE))]


def features(seed: int, *, noise: float, aside: int = 0) -> kshot.Features:
    """Make a network of a given quality; all look at the same images, in the same order."""
    world, random = np.random.default_rng(0), np.random.default_rng(seed)
    base, new = world.normal(size=(16, 8)), world.normal(size=(8, 8))
    kept = np.repeat(base, aside, axis=0)
    return kshot.Features(
        np.repeat(new, 12, axis=0) + noise * random.normal(size=(96, 8)),
        np.repeat(np.arange(8), 12),
        base_weights=0.3 * base,
        base_names=BASE,
        base_X=kept + noise * random.normal(size=kept.shape) if aside else None,
        base_y=np.repeat(np.arange(16), aside) if aside else None,
    )


@pytest.fixture(scope="module")
def networks() -> Networks:
    deep, less, shallow = features(1, noise=0.5), features(2, noise=0.7, aside=12), features(3, noise=1.3)
    return Networks({"resnet34": deep, "resnet34-500": less, "vgg-500": shallow})


@pytest.fixture(scope="module")
def written(networks: Networks, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report")
    options = replace(OPTIONS, cache=out / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure2_module, "BESIDES", ("logreg-sigma2", "logreg-ovr", "temperature"))
        carry_out(miniimagenet(networks), networks.by_label["resnet34"], out, options=options)
    return out


def table(folder: Path, stem: str, **where: object) -> pd.DataFrame:
    found = pd.read_csv(folder / f"{stem}.csv")
    for column, value in where.items():
        found = found[found[column] == value]
    return found


@pytest.mark.slow
def test_every_part_leaves_picture_and_numbers(written: Path) -> None:
    for name in PARTS:
        assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (written / f"{name}.svg").read_text()
        assert len(pd.read_csv(written / f"{name}.csv")) > 0
    assert not list(written.glob("*.partial"))


@pytest.mark.slow
def test_the_page_stands_alone_and_names_every_claim(written: Path) -> None:
    text = (written / "index.html").read_text("utf-8")
    assert "http://" not in text and "https://" not in text and "<script" not in text and "url(" not in text
    images = re.findall(r'<img [^>]*src="([^"]*)"', text)
    assert len(images) >= len(PARTS) and all(image.startswith("data:image/png;base64,") for image in images)
    ids = set(re.findall(r'id="([^"]*)"', text))
    for target in re.findall(r'href="([^"]*)"', text):
        assert target[1:] in ids if target.startswith("#") else (written / target).is_file(), target
    claims = pd.read_csv(written / "claims.csv").set_index("claim")
    assert set(claims.index) == {claim.name for claim in CLAIMS} <= ids
    # resnet34-600 was not given: the page says so, and what hangs on it was not tested.
    assert "--features resnet34-600=FILE" in unescape(text) and 'id="not-run"' not in text
    assert claims["held"]["more-images-help"] == "not tested" and claims["held"]["deeper-is-better"] == "true"


@pytest.mark.slow
def test_each_network_has_the_figures_that_evaluate_gives(written: Path, networks: Networks) -> None:
    methods = ["gauss-iso", "nearest"]
    for label, own in networks.by_label.items():
        expected = kshot.evaluate(own, methods, shots=(1, 5), tasks=20, queries=5)
        for stem in ("figure3", "figure8"):
            found = table(written, stem, network=label)
            for _, row in expected.iterrows():
                same = found[(found["method"] == row["method"]) & (found["shots"] == row["shots"])].iloc[0]
                assert same["accuracy"] == row["accuracy"] and same["ece"] == pytest.approx(row["ece"])
    sweep = table(written, "figure9", network="resnet34")
    assert list(sweep["accuracy"]) == list(table(written, "figure4")["accuracy"])


@pytest.mark.slow
def test_networks_are_compared_task_by_task(written: Path) -> None:
    found = table(written, "figure3_differences", shots=5, metric="accuracy", network="resnet34", reference="vgg-500")
    own = table(written, "figure3", shots=5, method="gauss-iso").set_index("network")["accuracy"]
    assert found["difference"].item() == pytest.approx(own["resnet34"] - own["vgg-500"])
    wide = [
        table(written, "figure3", shots=5, method="gauss-iso", network=each)["accuracy_ci95"].item()
        for each in ("resnet34", "vgg-500")
    ]
    assert found["ci95"].item() < sum(wide)


@pytest.mark.slow
def test_online_is_of_the_network_with_images_kept_aside(written: Path, networks: Networks) -> None:
    assert networks.kept_aside == "resnet34-500"
    own = networks.by_label["resnet34-500"]
    before = ((own.base_X @ own.base_weights.T).argmax(axis=1) == own.base_y).mean()
    found = table(written, "figure5")
    assert found["accuracy_old_before"].iloc[0] == pytest.approx(before)
    assert set(found["old_classes"]) == {16}


@pytest.mark.slow
def test_the_calibrated_prior_is_there_only_where_its_numbers_can_be_had(written: Path) -> None:
    have = table(written, "figure8", method="gauss-iso-calibrated")["network"]
    assert set(have) == {"resnet34-500"}
    assert set(table(written, "figure9_marks", mark="calibrated")["network"]) == {"resnet34-500"}
    assert "temperature" not in set(table(written, "figure2")["method"])
    assert "The calibrated prior was not run" in (written / "index.html").read_text("utf-8")


def test_table1_has_our_rows_first_and_both_priors_where_it_can() -> None:
    result = table1(features(2, noise=0.7, aside=12), replace(OPTIONS, shots=(1,)))
    own = result.tables["table1"]
    assert list(own["method"][:3]) == ["gauss-iso", "gauss-iso-calibrated", "paper"]
    assert list(own["source"][:2]) == ["this run"] * 2 and own["ece"][:2].notna().all()
    assert own["log_likelihood"][2:].isna().all()
    assert result.shown is not None and list(result.shown["accuracy %, 10-shot"])[2] == "78.5 ± 0.3"
    assert "fitted here" in result.notes[-1]


def test_table1_sets_competitors_trained_here_beside_ours_on_the_same_tasks() -> None:
    bundled = kshot.Features.load("vgg-cifar100")  # any features of images that the bundled competitors have predicted
    result = table1(bundled, Options(shots=(1, 10)))
    own = result.tables["table1"].set_index(["method", "shots"])
    assert list(own.index)[4:6] == [("protonet-1shot", 1), ("protonet-5shot", 1)]
    alone = kshot.evaluate(bundled, ["protonet-1shot"], shots=(1,)).iloc[0]
    for column in ("accuracy", "log_likelihood", "ece"):
        assert own[column]["protonet-1shot", 1] == pytest.approx(alone[column], abs=1e-12)
    assert re.fullmatch(r"this run; trained here: 32 px, \d+ min of one core", own["source"]["protonet-1shot", 1])
    gaps = result.tables["table1_differences"].set_index(["method", "shots", "metric"])["difference"]
    expected = own["accuracy"]["protonet-1shot", 1] - own["accuracy"]["gauss-iso", 1]
    assert gaps["protonet-1shot", 1, "accuracy"] == pytest.approx(expected, abs=1e-12)
    assert any("Prototypical Network (1-shot) 32 px" in note for note in result.notes)
    # On other tasks than those it kept predictions of, a competitor would need torch and the images.
    assert not competitors(bundled, Options(shots=(1,), seed=1))


def test_one_network_alone_runs_what_it_can_and_names_the_rest(tmp_path: Path) -> None:
    alone = Networks({"mine": features(1, noise=0.5)})
    plan = miniimagenet(alone)
    assert alone.main == "mine" and tuple(plan.parts) == ("table1", "figure2", "figure4", "figure7")
    assert set(plan.absent) == {"figure3", "figure5", "figure8", "figure9"}
    short = replace(plan, parts={"figure7": plan.parts["figure7"]})
    verdicts = {each.claim.name: each for each in carry_out(short, alone.by_label["mine"], tmp_path, options=OPTIONS)}
    text = unescape((tmp_path / "index.html").read_text("utf-8"))
    assert 'id="not-run"' in text and plan.absent["figure5"] in text and "superclass" not in text
    assert "--features resnet34-500=FILE" in verdicts["gauss-does-neither"].sentence
    assert verdicts["gauss-does-neither"].held is None and verdicts["named-classes-lie-together"].held is not None
    with pytest.raises(UserError, match="--only: figure5 cannot be run: it tests old and new classes together"):
        choose(plan, ["figure5"])


def test_closeness_is_the_mean_distance_of_pairs_against_chance() -> None:
    random = np.random.default_rng(0)
    weights = random.normal(size=(40, 6))
    weights[:4] = weights[0] + 0.1 * random.normal(size=(4, 6))
    found = closeness(weights, {"near": [0, 1, 2, 3], "far": [10, 20]}, seed=0, permutations=500).set_index("group")
    assert found["distance"]["near"] == pytest.approx(pdist(weights[:4]).mean())
    assert found["distance"]["far"] == pytest.approx(np.linalg.norm(weights[10] - weights[20]))
    assert found["chance"]["far"] == pytest.approx(pdist(weights).mean(), rel=0.05)
    assert found["p_value"]["near"] == pytest.approx(1 / 501) and found["classes"]["all"] == 6
    twice = closeness(weights, {"all four": [0, 1, 2, 3], "two": [0, 1]}, seed=0, permutations=10).set_index("group")
    assert twice["distance"]["all"] == pytest.approx(pdist(weights[:4]).mean())


def test_networks_must_look_at_the_same_images_and_have_base_weights() -> None:
    one = features(1, noise=0.5)
    with pytest.raises(UserError, match="other and of resnet34 are not of the same images"):
        Networks({"resnet34": one, "other": kshot.Features(one.X[:-1], one.y[:-1], base_weights=one.base_weights)})
    named = [
        kshot.Features(one.X, one.y, base_weights=one.base_weights, source={"images": [f"{letter}{i}" for i in one.y]})
        for letter in "ab"
    ]
    with pytest.raises(UserError, match="not of the same images"):
        Networks({"resnet34": named[0], "other": named[1]})
    with pytest.raises(UserError, match="features of bare have no base weights"):
        Networks({"bare": kshot.Features(one.X, one.y)})


def test_features_are_given_with_or_without_a_label(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = features(1, noise=0.5)
    for name in ("longer.safetensors", "a=b.safetensors"):
        one.save(name)
    found = load_networks(["longer.safetensors", "resnet34=longer.safetensors"])
    assert list(found.by_label) == ["longer", "resnet34"] and found.main == "resnet34"
    assert list(load_networks(["mine=a=b.safetensors"]).by_label) == ["mine"]
    for given, sentence in (
        (["a=b.safetensors"], "give it as LABEL=FILE"),
        (["longer.safetensors"] * 2, "longer is given twice"),
        (["vgg-500=none.safetensors"], "--features: there is no features file none.safetensors"),
        (["up/../=longer.safetensors"], "give it as LABEL=FILE"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            load_networks(given)


def test_bundled_features_are_found_by_their_names_and_their_lack_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("kshot.features._BUNDLED", tmp_path)
    with pytest.raises(UserError, match=r"train .*, extract .* and give them, --features resnet34=FILE") as raised:
        load_networks([])
    assert "\n" not in str(raised.value)
    for label in ("vgg-500", "resnet34"):
        features(1, noise=0.5).save(tmp_path / f"{BUNDLED[label]}.safetensors")
    assert list(load_networks([]).by_label) == ["resnet34", "vgg-500"]
    assert list(load_networks(["vgg-miniimagenet-500"]).by_label) == ["vgg-500"]
