"""The experiments are functions of features: their tables say what an independent computation says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import kshot
from kshot.concepts.evidence import Splits
from kshot.evaluation.logistic import CS
from kshot.experiments import figure2 as figure2_module
from kshot.experiments import figure10 as figure10_module
from kshot.experiments.chosen import ChosenPrior, as_pairs, hyperparameters
from kshot.experiments.figure2 import figure2
from kshot.experiments.figure4 import figure4
from kshot.experiments.figure5 import figure5
from kshot.experiments.figure6 import figure6, neighbour_agreement
from kshot.experiments.figure10 import BY_MAP, figure10
from kshot.experiments.names import label
from kshot.experiments.result import Options
from kshot.experiments.superclasses import best_superclasses, merged_superclasses
from kshot.experiments.table9 import PAPER, held_out_table, table9


def test_table9_has_the_papers_rows_in_its_order_with_its_numbers(small_features, quick: Options) -> None:
    table = table9(small_features, quick).tables["table9"]
    assert list(table["method"][:9]) == list(PAPER)
    assert list(table["paper"][:3]) == [-175.9, -196.1, -200.6]
    expected = kshot.compare_priors(small_features.base_weights, splits=3, methods=["gauss-full"])
    row = table.set_index("method").loc["gauss-full"]
    assert row["neg_log_prob"] == expected["neg_log_prob"][0]


def test_features_without_superclasses_have_no_row_for_them(small_features, quick: Options) -> None:
    plain = kshot.Features(small_features.X, small_features.y, base_weights=small_features.base_weights)
    assert "gmm-superclass" not in set(held_out_table(plain, quick)["method"])
    with pytest.raises(kshot.errors.UserError, match="base_weights"):
        held_out_table(kshot.Features(small_features.X, small_features.y), quick)


def test_the_superclass_mixture_is_scored_by_the_density_of_what_was_held_out(small_features) -> None:
    values, chosen = best_superclasses(small_features, splits=3, seed=0)
    weights, groups = small_features.base_weights, np.array(small_features.base_groups)
    drawn = Splits.draw(weights, splits=3, held_out=10, seed=0)
    for order, found in zip(drawn.order, values, strict=True):
        kept = order[10:]
        prior = kshot.MixturePrior.fit(weights[kept], groups=groups[kept], **chosen)
        np.testing.assert_allclose(found, -prior.log_prob(weights[order[:10]]))
    flat = kshot.GaussianPrior.fit(weights)
    # The groups are there in these weights, so that they help.
    assert values.mean() < -flat.log_prob(weights).mean()


def test_superclasses_of_cifar100_are_merged_as_in_the_paper() -> None:
    merged = merged_superclasses(kshot.Features.load("vgg-cifar100"))
    assert len(merged) == 80 and len(set(merged)) == 9


@pytest.mark.parametrize("family", BY_MAP)
def test_a_chosen_prior_is_the_familys_fit_with_the_hyperparameters_of_table9(
    small_features, quick: Options, family: str
) -> None:
    table = held_out_table(small_features, quick)
    chosen = hyperparameters(table, family)
    prior = ChosenPrior(family, family, as_pairs(chosen)).prior(small_features)
    weights = small_features.base_weights
    expected = {
        "gauss-iso": lambda: kshot.GaussianPrior.fit(weights, covariance="iso", **chosen),
        "gauss-full": lambda: kshot.GaussianPrior.fit(weights, covariance="full", **chosen),
        "student-t": lambda: kshot.StudentTPrior.fit(weights, **chosen),
        "gmm-superclass": lambda: kshot.MixturePrior.fit(weights, groups=small_features.base_groups, **chosen),
        "gmm-3-iso": lambda: kshot.MixturePrior.fit(weights, components=3, covariance="iso", **chosen),
        "gmm-3-diag": lambda: kshot.MixturePrior.fit(weights, components=3, covariance="diag", **chosen),
        "gmm-10-iso": lambda: kshot.MixturePrior.fit(weights, components=10, covariance="iso", **chosen),
        "laplace-diag": lambda: kshot.LaplacePrior.fit(weights, scale="diag", **chosen),
    }[family]()
    np.testing.assert_allclose(prior.log_prob(weights), expected.log_prob(weights))
    assert family == "laplace-iso" or chosen


def test_figure2_is_what_evaluate_gives_with_differences_per_task(small_features, quick: Options) -> None:
    result = figure2(small_features, quick)
    table = result.tables["figure2"]
    assert set(table["method"]) == {*figure2_module.MAIN, *figure2_module.BESIDES}
    expected = kshot.evaluate(small_features, ["gauss-iso", "nearest"], shots=(1, 5), tasks=20, queries=5)
    for _, row in expected.iterrows():
        own = table[(table["method"] == row["method"]) & (table["shots"] == row["shots"])].iloc[0]
        assert own["accuracy"] == row["accuracy"] and own["log_likelihood"] == row["log_likelihood"]
    tasks = result.tables["figure2_per_task"]
    wide = tasks[tasks["shots"] == 5].pivot(index="task", columns="method", values="accuracy")
    gaps = result.tables["figure2_differences"]
    row = gaps[(gaps["method"] == "nearest") & (gaps["reference"] == "gauss-iso") & (gaps["shots"] == 5)]
    row = row[row["metric"] == "accuracy"].iloc[0]
    assert row["difference"] == pytest.approx((wide["nearest"] - wide["gauss-iso"]).mean())
    assert set(result.pictures) == {"figure2", "figure2_all"} and result.shown is not None
    assert len(result.shown) == table["method"].nunique()


def test_figure4_sweeps_thirteen_constants_and_marks_the_chosen_one(small_features, quick: Options) -> None:
    tables = figure4(small_features, quick).tables
    sweep, marks = tables["figure4"], tables["figure4_marks"].set_index(["mark", "shots"])
    assert sorted(set(sweep["C"])) == pytest.approx(np.logspace(-5, 1, 13)) and len(sweep) == 13 * 2
    assert list(sweep["C"][::2]) == list(CS)
    variance = small_features.base_weights.var(axis=0).mean()
    assert marks["C"]["chosen", 5] == pytest.approx(variance)
    expected = kshot.evaluate(small_features, ["logreg-sigma2"], shots=(5,), tasks=20, queries=5)
    assert marks["accuracy"]["chosen", 5] == expected["accuracy"][0]
    assert np.isnan(marks["accuracy"]["cross-validated", 1])


def test_figure5_weighs_all_classes_alike_and_leaves_out_what_is_not_calibrated(small_features, quick: Options) -> None:
    table = figure5(small_features, quick).tables["figure5"]
    assert "gauss-iso-calibrated" not in set(table["method"])
    together = (32 * table["accuracy_old"] + 5 * table["accuracy_new"]) / 37
    np.testing.assert_allclose(table["accuracy_all"], together)


def test_neighbours_agree_in_clusters_and_by_chance_in_noise() -> None:
    random = np.random.default_rng(1)
    groups = [f"g{i // 8}" for i in range(64)]
    apart = np.repeat(10 * random.normal(size=(8, 5)), 8, axis=0) + random.normal(size=(64, 5))
    found = neighbour_agreement(apart, groups, seed=0, permutations=500)
    assert found["agreement"] == 1 and found["p_value"] == pytest.approx(1 / 501)
    assert found["chance"] == pytest.approx(7 / 63, abs=0.01)
    noise = neighbour_agreement(random.normal(size=(64, 5)), groups, seed=0, permutations=500)
    assert noise["p_value"] > 0.05


def test_figure6_keeps_every_class_and_repeats(small_features, quick: Options) -> None:
    first, second = (figure6(small_features, quick).tables["figure6"] for _ in range(2))
    assert list(first["class"]) == list(small_features.base_names)
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_figure10_without_sampling_has_the_models_of_table7(small_features, quick: Options) -> None:
    result = figure10(small_features, replace(quick, shots=(1,)))
    assert set(result.tables["figure10"]["method"]) == {*BY_MAP, "gauss-iso-calibrated"}
    assert "figure10_sampling" not in result.tables
    per_task = result.tables["figure10_per_task"]
    assert per_task["split"].nunique() == 2 and len(per_task) == 9 * 20


@pytest.mark.sample
@pytest.mark.slow
def test_figure10_samples_the_rows_of_table8_and_keeps_how_it_went(
    small_features, quick: Options, tmp_path, monkeypatch
) -> None:
    pytest.importorskip("jax")
    sampler = replace(quick.sampler, chains=1, warmup=30, draws=30)
    monkeypatch.setattr(figure10_module, "BY_MAP", ("gauss-iso", "gauss-full", "student-t", "laplace-diag"))
    options = replace(quick, shots=(1,), nuts=True, sampler=sampler, cache=tmp_path)
    first, second = (figure10(small_features, options) for _ in range(2))
    sampled = [method for method in first.tables["figure10"]["method"] if method.endswith(":nuts")]
    assert sampled == ["gauss-iso:nuts", "gauss-full:nuts", "student-t:nuts", "laplace-diag:nuts"]
    assert list(first.tables["figure10_sampling"]["tasks"]) == [20] * 4
    for stem, table in first.tables.items():
        pd.testing.assert_frame_equal(table, second.tables[stem], check_exact=True)


def test_a_method_is_called_as_in_the_paper() -> None:
    assert label("laplace-diag", inference=True) == "Laplace (diag) MAP"
    assert label("laplace-diag:nuts") == "Laplace (diag) NUTS"
    assert label("gauss-iso-calibrated", inference=True) == "Gauss (iso), calibrated"
    assert label("LogisticRegression") == "LogisticRegression"
