"""Each claim is judged from tables alone: made-up results whose verdict is known, both ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from kshot.experiments.claims import CLAIMS, Evidence, episodic
from kshot.experiments.claims.closed import READINGS
from kshot.experiments.claims.verdict import Gap, in_points, verdict_on

SHOTS = (1, 5, 10)
BY_NAME = {claim.name: claim for claim in CLAIMS}


class World:
    """Results of methods by three numbers each: accuracy, log-likelihood and ECE, the same at all shots."""

    def __init__(self, part: str, reference: str = "gauss-iso") -> None:
        self.part, self.reference = part, reference
        self.figures: dict[tuple[str, int], dict[str, float]] = {}

    def add(self, method: str, accuracy: float, log_likelihood: float, ece: float, shots: tuple[int, ...] = SHOTS):
        for k in shots:
            self.figures[method, k] = {"accuracy": accuracy, "log_likelihood": log_likelihood, "ece": ece}
        return self

    def tables(self, *, ci95: float = 0.004) -> dict[str, pd.DataFrame]:
        rows = [{"method": m, "shots": k, "accuracy_ci95": 0.01, **each} for (m, k), each in self.figures.items()]
        gaps = []
        references = {m for m, _ in self.figures}
        for (method, k), own in self.figures.items():
            for reference in references - {method}:
                if (reference, k) in self.figures:
                    for metric, value in own.items():
                        gap = value - self.figures[reference, k][metric]
                        gaps.append((method, k, metric, gap, ci95, abs(gap) > ci95, reference))
        columns = ["method", "shots", "metric", "difference", "ci95", "significant", "reference"]
        return {self.part: pd.DataFrame(rows), f"{self.part}_differences": pd.DataFrame(gaps, columns=columns)}


def held(name: str, tables: dict[str, pd.DataFrame]) -> bool | None:
    verdict = verdict_on(BY_NAME[name], Evidence(tables))
    assert verdict.sentence and "nan" not in verdict.sentence
    return verdict.held


def closed(**others: tuple[float, float, float]) -> dict[str, pd.DataFrame]:
    """Make results of Fig. 2 in which everything holds, but for what is given."""
    figures = {
        "gauss-iso": (0.75, -0.80, 0.10),
        "logreg-cv": (0.73, -1.00, 0.20),
        "logreg-sigma2": (0.75, -0.80, 0.10),
        "logreg-2sigma2": (0.75, -0.75, 0.10),
        "logreg-ovr": (0.75, -0.82, 0.12),
        "logreg-ovr-free-intercept": (0.745, -0.77, 0.12),
        "nearest": (0.70, -0.90, 0.05),
        "gauss-iso-calibrated": (0.752, -0.60, 0.01),
    } | {name.replace("_", "-"): value for name, value in others.items()}
    world = World("figure2")
    for method, value in figures.items():
        world.add(method, *value, shots=(5, 10) if method == "logreg-cv" else SHOTS)
    if "nearest" not in {name.replace("_", "-") for name in others}:
        world.add("nearest", 0.752, -0.9, 0.05, shots=(1,))
    return world.tables()


def swept(*, accuracy: tuple[float, ...], likelihood: tuple[float, ...], ece: tuple[float, ...], chosen=(0.75, -0.7)):
    lines = [
        {"shots": k, "C": c, "accuracy": a, "log_likelihood": ll, "ece": e}
        for k in SHOTS
        for c, a, ll, e in zip((0.001, 0.01, 0.1), accuracy, likelihood, ece, strict=True)
    ]
    marks = [{"mark": "chosen", "shots": k, "accuracy": chosen[0], "log_likelihood": chosen[1]} for k in SHOTS]
    return {"figure4": pd.DataFrame(lines), "figure4_marks": pd.DataFrame(marks)}


def online(**methods: tuple[float, float]) -> dict[str, pd.DataFrame]:
    figures = {
        "gauss-iso": (0.62, 0.7),
        "logreg-sigma2": (0.62, 0.7),
        "logreg-mle": (0.05, 0.8),
        "logreg-sigma2-only-new": (0.64, 0.0),
    }
    figures |= {name.replace("_", "-"): value for name, value in methods.items()}
    rows = [
        {"method": m, "shots": k, "accuracy_old": old, "accuracy_new": new, "accuracy_old_before": 0.64}
        for m, (old, new) in figures.items()
        for k in SHOTS
    ]
    return {"figure5": pd.DataFrame(rows)}


def held_out(**values: float) -> dict[str, pd.DataFrame]:
    figures = {
        "gauss-iso": -175.0,
        "gauss-full": -196.0,
        "student-t": -200.0,
        "gmm-3-iso": -179.0,
        "laplace-iso": -173.0,
    }
    paper = dict(figures)
    figures |= {name.replace("_", "-"): value for name, value in values.items()}
    rows = [
        {"method": m, "neg_log_prob": v, "standard_error": 0.3, "paper": paper[m], "paper_error": 0.3}
        for m, v in figures.items()
    ]
    return {"table9": pd.DataFrame(rows)}


def models(seconds: float = 100.0, **others: tuple[float, float, float]) -> dict[str, pd.DataFrame]:
    figures = {
        "gauss-iso": (0.75, -0.80, 0.10),
        "gauss-full": (0.75, -0.80, 0.09),
        "student-t": (0.75, -0.80, 0.09),
        "gmm-superclass": (0.75, -0.80, 0.1),
        "gmm-3-iso": (0.75, -0.80, 0.1),
        "gmm-3-diag": (0.75, -0.80, 0.1),
        "gmm-10-iso": (0.72, -0.90, 0.2),
        "laplace-diag": (0.70, -1.00, 0.3),
        "gauss-iso:nuts": (0.75, -0.80, 0.09),
        "gauss-full:nuts": (0.752, -0.80, 0.07),
        "student-t:nuts": (0.75, -0.80, 0.07),
    } | {name.replace("__", ":").replace("_", "-"): value for name, value in others.items()}
    world = World("figure10")
    for method, value in figures.items():
        world.add(method, *value)
    times = [{"method": m, "shots": 1, "seconds": seconds if m.endswith("nuts") else 1.0} for m in figures]
    return world.tables() | {"figure10_timings": pd.DataFrame(times)}


def alike(**others: tuple[float, float, float]) -> dict[str, pd.DataFrame]:
    """Make results of Fig. 10 in which no model is better than Gauss (iso) in anything, but for what is given."""
    richer = ("gauss_full", "student_t", "gauss_iso__nuts", "gauss_full__nuts", "student_t__nuts")
    return models(**dict.fromkeys(richer, (0.75, -0.80, 0.10)) | others)


GOOD_SWEEP = {"accuracy": (0.74, 0.755, 0.75), "likelihood": (-1.2, -0.75, -0.66), "ece": (0.4, 0.2, 0.05)}

CASES: list[tuple[str, Callable[[], dict[str, pd.DataFrame]], Callable[[], dict[str, pd.DataFrame]]]] = [
    ("gauss-against-cross-validation", closed, lambda: closed(logreg_cv=(0.73, -1.0, 0.05))),
    ("chosen-constant-against-cross-validation", closed, lambda: closed(logreg_sigma2=(0.72, -0.8, 0.1))),
    (
        "logistic-regression-slightly-likelier",
        closed,
        lambda: closed(logreg_2sigma2=(0.75, -0.5, 0.1), logreg_ovr_free_intercept=(0.75, -0.9, 0.1)),
    ),
    ("logistic-regression-slightly-likelier", closed, lambda: closed(logreg_cv=(0.73, -0.85, 0.2))),
    ("gauss-against-cross-validation", closed, lambda: closed(logreg_cv=(0.75, -1.0, 0.2))),
    ("gauss-better-at-one-shot", closed, lambda: closed(logreg_ovr_free_intercept=(0.75, -0.8, 0.1))),
    ("similar-at-five-and-ten", closed, lambda: closed(logreg_ovr=(0.71, -0.8, 0.1))),
    ("nearest-neighbour", closed, lambda: closed(nearest=(0.70, -0.8, 0.1))),
    ("nearest-neighbour", closed, lambda: closed(logreg_cv=(0.70, -1.0, 0.2))),
    ("none-more-accurate", closed, lambda: closed(svm=(0.77, -0.8, 0.1))),
    ("calibrated-ece", closed, lambda: closed(gauss_iso_calibrated=(0.75, -0.6, 0.02))),
    ("calibrated-accuracy", closed, lambda: closed(gauss_iso_calibrated=(0.742, -0.6, 0.01))),
    (
        "calibrated-likelihood",
        lambda: closed() | swept(**GOOD_SWEEP),
        lambda: closed() | swept(**{**GOOD_SWEEP, "likelihood": (-1.2, -0.55, -0.66)}),
    ),
    ("calibrated-likelihood", lambda: closed() | swept(**GOOD_SWEEP),
     lambda: closed(nearest=(0.7, -0.5, 0.05)) | swept(**GOOD_SWEEP)),
    ("accuracy-barely-moves", lambda: swept(**GOOD_SWEEP), lambda: swept(**GOOD_SWEEP | {"accuracy": (0.5, 0.7, 0.7)})),
    ("accuracy-barely-moves", lambda: swept(**GOOD_SWEEP), lambda: swept(**{**GOOD_SWEEP, "ece": (0.1, 0.1, 0.1)})),
    ("not-both-at-once", lambda: swept(**GOOD_SWEEP), lambda: swept(**{**GOOD_SWEEP, "accuracy": (0.7, 0.72, 0.75)})),
    ("good-balance", lambda: swept(**GOOD_SWEEP), lambda: swept(**GOOD_SWEEP, chosen=(0.754, -0.9))),
    ("maximum-likelihood-forgets", online, lambda: online(logreg_mle=(0.5, 0.8))),
    ("only-new-fails", online, lambda: online(logreg_sigma2_only_new=(0.6, 0.3))),
    ("gauss-does-neither", online, lambda: online(gauss_iso=(0.64, 0.1))),
    ("gauss-does-neither", online, lambda: online(gauss_iso=(0.50, 0.8))),
    ("gauss-does-neither", online, lambda: online(logreg_sigma2=(0.62, 0.1))),
    ("two-points-on-the-old", online, lambda: online(gauss_iso=(0.64, 0.8))),
    ("two-points-on-the-old", online, lambda: online(logreg_sigma2=(0.50, 0.8))),
    ("full-gaussians-explain-best", held_out, lambda: held_out(gmm_3_iso=-199.0)),
    ("order-of-table9", held_out, lambda: held_out(laplace_iso=-180.0)),
    ("simple-gaussian-is-enough", models, lambda: models(gmm_3_diag=(0.77, -0.8, 0.1))),
    ("no-benefit-of-complexity", alike, lambda: alike(gmm_3_diag=(0.75, -0.7, 0.1))),
    ("no-benefit-of-complexity", alike, lambda: alike(gauss_full=(0.75, -0.8, 0.05))),
    ("accuracy-alike-among-models", models, lambda: models(gauss_full=(0.74, -0.7, 0.1))),
    ("accuracy-alike-among-models", models, lambda: models(gmm_3_diag=(0.76, -0.8, 0.1))),
    ("laplace-map-underperforms", models, lambda: models(laplace_diag=(0.75, -1.0, 0.1))),
    ("gmm10-underperforms", models, lambda: models(gmm_10_iso=(0.75, -0.9, 0.1))),
    ("mixtures-do-not-help", models, lambda: models(gmm_3_iso=(0.75, -0.7, 0.1))),
    ("mixtures-do-not-help", lambda: models(gmm_3_diag=(0.7, -0.7, 0.1)), lambda: models(gmm_superclass=(0.8, -1, 1))),
    ("gaussians-better-calibrated-than-laplace", models, lambda: models(laplace_diag=(0.22, -1.6, 0.02))),
    ("sampling-a-little-better-calibrated", models, lambda: models(student_t__nuts=(0.75, -0.8, 0.12))),
    ("sampling-a-little-better-calibrated", models, lambda: models(student_t__nuts=(0.75, -0.8, 0.01))),
    ("sampling-alike-and-dear", models, lambda: models(seconds=2.0)),
    ("sampling-alike-and-dear", models, lambda: models(gauss_full__nuts=(0.80, -0.8, 0.1))),
    ("sampling-alike-and-dear", models, lambda: models(gauss_full__nuts=(0.75, -0.9, 0.1))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "true", "false"), CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_a_claim_holds_where_it_should_and_fails_where_it_should(name, true, false) -> None:
    assert held(name, true()) is True
    assert held(name, false()) is False


def test_structure_is_judged_by_chance() -> None:
    row = {"agreement": 0.5, "chance": 0.05, "p_value": 0.0001, "classes": 80}
    tables = {"figure6": pd.DataFrame(), "figure6_neighbours": pd.DataFrame([row])}
    assert held("structure-in-the-weights", tables) is True
    tables["figure6_neighbours"] = pd.DataFrame([row | {"p_value": 0.3}])
    assert held("structure-in-the-weights", tables) is False


def test_every_claim_is_tested_both_ways_here() -> None:
    elsewhere = {"structure-in-the-weights"} | {claim.name for claim in episodic.CLAIMS}  # test_claims_episodic.py
    assert {case[0] for case in CASES} | elsewhere == set(BY_NAME)
    assert len(BY_NAME) == len(CLAIMS)


def test_a_claim_without_its_results_says_what_is_missing() -> None:
    assert verdict_on(BY_NAME["nearest-neighbour"], Evidence({})).sentence == "Not tested: figure2 was not run."
    only_map = models()
    only_map["figure10"] = only_map["figure10"][~only_map["figure10"]["method"].str.endswith(":nuts")]
    verdict = verdict_on(BY_NAME["sampling-alike-and-dear"], Evidence(only_map))
    assert verdict.held is None and verdict.sentence == "Not tested: gauss-full:nuts was not run (--no-nuts)."
    alone = verdict_on(BY_NAME["calibrated-likelihood"], Evidence(closed()))
    assert alone.held is None and "figure4 was not run" in alone.sentence


def test_the_sentence_says_under_which_reading_of_logistic_regression() -> None:
    verdict = verdict_on(BY_NAME["gauss-better-at-one-shot"], Evidence(closed()))
    assert verdict.sentence.startswith("True against Log Reg (one-vs-rest, free intercept) only")
    assert len(verdict.sentence.split("\n")) == 1 + len(READINGS)


def test_what_the_online_claim_explains_is_what_happened() -> None:
    claim = BY_NAME["gauss-does-neither"]
    nothing = verdict_on(claim, Evidence(online(gauss_iso=(0.64, 0.0), logreg_sigma2=(0.64, 0.01)))).sentence
    assert "forgotten by neither, new ones hardly learned by Gauss (iso) and Log Reg" in nothing
    assert "too small to win" in nothing
    forgets = verdict_on(claim, Evidence(online(gauss_iso=(0.50, 0.72), logreg_sigma2=(0.50, 0.72)))).sentence
    assert "new ones hardly learned by neither" in forgets and "too small to win" not in forgets


def test_a_difference_within_its_interval_is_none() -> None:
    gap = Gap(0.003, 0.004)
    assert not gap.above and not gap.below and in_points(gap) == "+0.3 ± 0.4 points"
    assert Gap(0.005, 0.004).above and Gap(-0.005, 0.004).below
    rounding = Gap(7e-17, 5e-17)  # two forms of one model
    assert not rounding.above and not Gap(-7e-17, 5e-17).below


def test_a_difference_is_read_both_ways_round() -> None:
    tables = closed()
    table = tables["figure2_differences"]
    tables["figure2_differences"] = table[table["reference"] == "gauss-iso"]
    evidence = Evidence(tables)
    one = evidence.gap("figure2", "nearest", "gauss-iso", "accuracy", shots=5)
    other = evidence.gap("figure2", "gauss-iso", "nearest", "accuracy", shots=5)
    assert one is not None and other is not None and one.difference == -other.difference
    assert np.isclose(one.difference, -0.05)
    assert evidence.gap("figure2", "nearest", "svm", "accuracy", shots=5) is None
