"""The claims about Table 1, the networks and the named classes are judged from tables alone, both ways."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pandas as pd
import pytest

from kshot.experiments.claims import headline, named, networks
from kshot.experiments.claims.verdict import Evidence, verdict_on
from kshot.experiments.miniimagenet import CLAIMS
from kshot.experiments.table1 import published

SHOTS = (1, 5, 10)
BY_NAME = {claim.name: claim for claim in CLAIMS}
OWN = (*headline.CLAIMS, *networks.CLAIMS, *named.CLAIMS)
Tables = dict[str, pd.DataFrame]
Figures = tuple[float, float, float]


def rows(figures: dict[str, Figures], shots: tuple[int, ...] = SHOTS) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"method": m, "shots": k, "accuracy": a, "accuracy_ci95": 0.004, "log_likelihood": ll, "ece": e}
            for m, (a, ll, e) in figures.items()
            for k in shots
        ]
    )


def gaps(figures: dict[str, Figures], shots: tuple[int, ...] = SHOTS, ci95: float = 0.004) -> pd.DataFrame:
    metrics = ("accuracy", "log_likelihood", "ece")
    return pd.DataFrame(
        [
            {"method": one, "reference": other, "shots": k, "metric": metric, "difference": a - b, "ci95": ci95}
            for one, other in permutations(figures, 2)
            for k in shots
            for metric, a, b in zip(metrics, figures[one], figures[other], strict=True)
        ]
    )


def headlines(own: float = 0.80, calibrated: Figures = (0.80, -0.6, 0.01), nearest: float = 0.75) -> Tables:
    """Make a Table 1 in which our accuracy is the same at all shots."""
    figures = {"gauss-iso": (own, -1.0, 0.3), "gauss-iso-calibrated": calibrated}
    baselines = {"gauss-iso": (own, -1.0, 0.3), "nearest": (nearest, -1.0, 0.1), "logreg-mle": (0.1, -9.0, 0.5)}
    return {
        "table1": pd.concat([rows(figures), published()], ignore_index=True),
        "table1_differences": gaps(figures),
        "figure2": rows(baselines),
    }


def by_network(
    vgg: Figures = (0.60, -0.9, 0.10),
    less: Figures = (0.68, -1.1, 0.30),
    more: Figures = (0.70, -1.1, 0.31),
    *,
    free: dict[str, float] | None = None,
    free_later: float = -0.005,
    cross_validated: Figures = (-0.02, -0.3, 0.1),
    nearest: dict[str, float] | None = None,
) -> Tables:
    """Make results of three networks; the other methods stand relative to Gauss (iso), ours as far as is given."""
    own = {"vgg-500": vgg, "resnet34-500": less, "resnet34-600": more}
    figure8, differences = [], []
    for network, (a, ll, e) in own.items():
        methods = {"gauss-iso": (a, ll, e)}
        methods |= dict.fromkeys(("logreg-sigma2", "logreg-2sigma2", "logreg-ovr"), (a, ll, e))
        methods["logreg-cv"] = (a + cross_validated[0], ll + cross_validated[1], e + cross_validated[2])
        methods["nearest"] = (a + (nearest or {}).get(network, -0.05), ll, e)
        methods["gauss-iso-calibrated"] = (a + (0.01 if network == "vgg-500" else -0.01), ll, 0.02)
        for shots, gap in (((1,), (free or {}).get(network, -0.02)), ((5, 10), free_later)):
            methods["logreg-ovr-free-intercept"] = (a + gap, ll, e)
            figure8.append(rows(methods, shots).assign(network=network))
            differences.append(gaps(methods, shots).assign(network=network))
    figure8_table = pd.concat(figure8, ignore_index=True)
    figure3 = figure8_table[figure8_table["method"] == "gauss-iso"]
    return {
        "figure3": figure3,
        "figure3_differences": gaps(own).rename(columns={"method": "network"}),
        "figure8": figure8_table,
        "figure8_differences": pd.concat(differences, ignore_index=True),
        "figure9": figure8_table,
    }


def groups(p_value: float) -> Tables:
    table = [
        {"group": group, "classes": 3, "distance": 1.0, "chance": 2.0, "p_value": p_value} for group in ("birds", "all")
    ]
    return {"figure7": pd.DataFrame({"class": ["goose"]}), "figure7_groups": pd.DataFrame(table)}


CASES: list[tuple[str, Callable[[], Tables], Callable[[], Tables]]] = [
    ("as-accurate-as-the-paper", headlines, lambda: headlines(own=0.76)),
    ("beats-the-quoted-competitors", headlines, lambda: headlines(own=0.685)),
    ("six-points-over-prototypical", headlines, lambda: headlines(own=0.72)),
    ("baselines-beat-prototypical", headlines, lambda: headlines(nearest=0.67)),
    ("calibrated-beside-the-paper", headlines, lambda: headlines(calibrated=(0.794, -0.6, 0.01))),
    ("calibrated-beside-the-paper", headlines, lambda: headlines(calibrated=(0.80, -0.6, 0.03))),
    ("deeper-is-better", by_network, lambda: by_network(vgg=(0.679, -0.9, 0.1))),
    ("more-images-help", by_network, lambda: by_network(more=(0.683, -1.1, 0.31))),
    ("almost-ten-points", by_network, lambda: by_network(vgg=(0.64, -0.9, 0.1))),
    ("almost-ten-points", by_network, lambda: by_network(vgg=(0.40, -0.9, 0.1))),
    ("one-shot-across-networks", by_network, lambda: by_network(free={"vgg-500": 0.01})),
    ("one-shot-across-networks", by_network, lambda: by_network(free_later=-0.02)),
    ("same-order-on-every-network", by_network, lambda: by_network(nearest={"vgg-500": 0.02})),
    ("shallow-is-better-calibrated", by_network, lambda: by_network(vgg=(0.6, -0.9, 0.35))),
    ("shallow-is-better-calibrated", by_network, lambda: by_network(vgg=(0.6, -1.3, 0.1))),
    ("resnets-calibrated-alike", by_network, lambda: by_network(more=(0.7, -1.1, 0.33))),
    ("constant-on-every-network", by_network, lambda: by_network(cross_validated=(0.01, -0.3, 0.1))),
    ("constant-on-every-network", by_network, lambda: by_network(cross_validated=(-0.02, -0.3, -0.1))),
    ("named-classes-lie-together", lambda: groups(0.01), lambda: groups(0.2)),
]


@pytest.mark.parametrize(("name", "true", "false"), CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_a_claim_holds_where_it_should_and_fails_where_it_should(name, true, false) -> None:
    for tables, expected in ((true(), True), (false(), False)):
        verdict = verdict_on(BY_NAME[name], Evidence(tables))
        assert verdict.held is expected, verdict.sentence
        assert verdict.sentence and "nan" not in verdict.sentence


def test_every_claim_of_its_own_is_tested_both_ways_and_no_name_is_there_twice() -> None:
    assert {case[0] for case in CASES} == {claim.name for claim in OWN}
    assert len(BY_NAME) == len(CLAIMS)


def test_the_sentence_says_which_reading_loses_on_every_network() -> None:
    sentence = verdict_on(BY_NAME["one-shot-across-networks"], Evidence(by_network())).sentence
    assert "true against Log Reg (one-vs-rest, free intercept)." in sentence
    none = verdict_on(BY_NAME["one-shot-across-networks"], Evidence(by_network(free={"vgg-500": 0.01}))).sentence
    assert "no reading" in none


def test_a_claim_about_a_network_without_its_features_says_which() -> None:
    tables = by_network()
    tables["figure3"] = tables["figure3"][tables["figure3"]["network"] != "vgg-500"]
    verdict = verdict_on(BY_NAME["deeper-is-better"], Evidence(tables))
    assert (verdict.held, verdict.sentence) == (None, "Not tested: no features of vgg-500 were given.")
    why = {"figure8": "it compares networks"}
    verdict = verdict_on(BY_NAME["same-order-on-every-network"], Evidence({}), absent=why)
    assert verdict.sentence == "Not tested: figure8 was not run: it compares networks."


def test_the_published_rows_are_those_of_the_papers_table() -> None:
    table = published().set_index(["method", "shots"])["accuracy"].round(4).to_dict()
    assert (table["paper", 1], table["paper", 5], table["paper", 10]) == (0.563, 0.739, 0.785)
    assert table["quoted-protonet-5shot", 5] == 0.682 and table["quoted-meta-lstm", 1] == 0.434
    assert ("quoted-matching-1shot", 5) not in table and len(table) == 11
