"""A plan writes each part's files, the claims and a page that stands alone; twice the same, to the last digit."""

from __future__ import annotations

import gzip
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

import kshot
from kshot.errors import UserError
from kshot.experiments import figure10
from kshot.experiments.cifar100 import CIFAR100, cifar100
from kshot.experiments.claims import CLAIMS
from kshot.experiments.page import page
from kshot.experiments.plan import Plan, carry_out, choose
from kshot.experiments.result import Options

VOID = {"meta", "img", "br", "link", "input"}


class Checker(HTMLParser):
    """Follow the tags: each is closed in its order, and what a browser would load is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [attributes[name] for name in ("src", "srcset", "data") if name in attributes]
        self.loaded += [attributes["href"]] if tag == "link" else []
        self.linked += [attributes["href"]] if tag == "a" else []
        self.ids += [attributes["id"]] if "id" in attributes else []
        assert tag not in {"script", "iframe", "object", "embed"}

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def read(path: Path) -> Checker:
    checker = Checker()
    checker.feed(path.read_text("utf-8"))
    assert not checker.open
    return checker


@pytest.fixture(scope="module", autouse=True)
def _few_models():
    """Leave out the mixtures but one: their search takes most of the time, and the plan does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure10, "BY_MAP", ("gauss-iso", "gauss-full", "student-t", "gmm-superclass", "laplace-diag"))
        yield


@pytest.fixture(scope="module")
def written(small_features, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report")
    options = Options(shots=(1, 5), tasks=20, repeated=20, queries=5, splits=3, nuts=False, cache=out / "cache")
    carry_out(CIFAR100, small_features, out, options=options, command="kshot reproduce <toy>")
    return out


def test_every_part_leaves_picture_and_numbers(written: Path) -> None:
    for name in CIFAR100.parts:
        assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (written / f"{name}.svg").read_text()
        assert len(pd.read_csv(written / f"{name}.csv")) > 0
    assert {"task", "accuracy"} <= set(pd.read_csv(written / "figure2_per_task.csv.gz").columns)
    assert not list(written.glob("*.partial"))


def test_the_page_stands_alone(written: Path) -> None:
    found = read(written / "index.html")
    assert len(found.loaded) >= 6 and all(source.startswith("data:image/png;base64,") for source in found.loaded)
    text = (written / "index.html").read_text("utf-8")
    assert "http://" not in text and "https://" not in text and "@import" not in text and "url(" not in text
    for target in found.linked:
        assert target.removeprefix("#") in found.ids if target.startswith("#") else (written / target).is_file()


def test_the_page_says_of_every_claim_whether_it_held(written: Path) -> None:
    found = read(written / "index.html")
    claims = pd.read_csv(written / "claims.csv").set_index("claim")
    assert set(claims.index) == {claim.name for claim in CLAIMS} <= set(found.ids)
    assert set(claims["held"]) <= {"true", "false", "not tested"}
    for claim in CLAIMS:
        assert claim.short in found.text and claim.rule in found.text
    assert claims["held"]["sampling-alike-and-dear"] == "not tested"
    assert "kshot reproduce <toy>" in found.text


def test_again_and_elsewhere_gives_the_same_to_the_last_digit(written: Path, small_features, tmp_path: Path) -> None:
    options = Options(shots=(1, 5), tasks=20, repeated=20, queries=5, splits=3, nuts=False)
    carry_out(CIFAR100, small_features, tmp_path, options=options, command="kshot reproduce <toy>")
    names = {path.name for path in written.iterdir() if path.is_file()}
    assert names == {path.name for path in tmp_path.iterdir()}
    for name in names - {"figure2_timings.csv", "figure10_timings.csv"}:
        assert (written / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_a_second_run_predicts_nothing_anew(written: Path, small_features, monkeypatch) -> None:
    from kshot.experiments import chosen

    monkeypatch.setattr(chosen.ChosenPrior, "__call__", lambda *_: pytest.fail("predicted again"))
    options = Options(shots=(1, 5), tasks=20, repeated=20, queries=5, splits=3, nuts=False, cache=written / "cache")
    before = (written / "figure10.csv").read_bytes()
    carry_out(CIFAR100, small_features, written, options=options, only=["figure10"])
    assert (written / "figure10.csv").read_bytes() == before


def test_parts_are_chosen_by_name_and_a_wrong_one_lists_them() -> None:
    assert choose(CIFAR100, []) == ["figure2", "figure4", "figure5", "figure6", "table9", "figure10", "episodic"]
    assert choose(CIFAR100, ["table9", "figure2"]) == ["figure2", "table9"]
    with pytest.raises(UserError, match="no part 'figure3' of cifar100; there are figure2, figure4"):
        choose(CIFAR100, ["figure3"])


def test_only_some_parts_leave_the_other_claims_untested(small_features, tmp_path: Path) -> None:
    options = Options(splits=3, seed=1)
    verdicts = carry_out(CIFAR100, small_features, tmp_path, options=options, only=["figure6"])
    tested = {each.claim.name for each in verdicts if each.held is not None}
    assert tested == {"structure-in-the-weights"}
    assert {each.sentence for each in verdicts if each.claim.part == "figure2"} == {"Not tested: figure2 was not run."}
    assert not (tmp_path / "figure2.csv").exists()


def test_features_without_images_of_base_classes_run_what_they_can(small_features, tmp_path: Path) -> None:
    f = small_features
    weights = {"base_weights": f.base_weights, "base_names": f.base_names, "base_groups": f.base_groups}
    bare = kshot.Features(f.X, f.y, **weights)
    plan = cifar100(bare)
    assert list(plan.absent) == ["figure5"] and set(plan.parts) == set(CIFAR100.parts) - {"figure5"}
    with pytest.raises(UserError, match="figure5 cannot be run: it tests old and new classes together"):
        choose(plan, ["figure5"])
    options = Options(shots=(1, 5), tasks=20, repeated=20, queries=5, splits=3, nuts=False, cache=tmp_path / "cache")
    carry_out(plan, bare, tmp_path, options=options, only=["figure2", "figure10"])
    assert "The calibrated prior was not run" in read(tmp_path / "index.html").text
    assert "gauss-iso-calibrated" not in set(pd.read_csv(tmp_path / "figure10.csv")["method"])


def test_words_from_outside_cannot_break_the_page(tmp_path: Path) -> None:
    text = page("<b>5 & 6</b>", ["1 < 2"], [], [], folder=tmp_path, command='x "<i>"')
    (tmp_path / "index.html").write_text(text, "utf-8")
    found = read(tmp_path / "index.html")
    assert "<b>5 & 6</b>" in found.text and 'x "<i>"' in found.text


def test_compressed_tables_have_no_time_in_them(written: Path) -> None:
    content = (written / "figure2_per_task.csv.gz").read_bytes()
    assert content[4:8] == bytes(4) and gzip.decompress(content).startswith(b"method,shots,task")


def test_a_plan_is_any_features_and_any_parts(small_features, tmp_path: Path) -> None:
    plan = Plan("mine", "", "My page", ("About.",), {"figure6": CIFAR100.parts["figure6"]})
    carry_out(plan, small_features, tmp_path, options=Options())
    assert "My page" in read(tmp_path / "index.html").text
