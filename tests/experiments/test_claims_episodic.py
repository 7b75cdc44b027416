"""The claims about training by episodes are judged from tables alone, both ways."""

from __future__ import annotations

import pandas as pd

from kshot.experiments.claims import episodic
from kshot.experiments.claims.verdict import Evidence, verdict_on
from kshot.experiments.episodic import BATCH, DEEPER, SHOTS, TRAINED

BY_NAME = {claim.name: claim for claim in episodic.CLAIMS}


def tables(ci95: float = 0.004, **others: tuple[float, float]) -> dict[str, pd.DataFrame]:
    """Make results in which everything holds, but for the accuracies (1 shot, 5 shots) that are given."""
    accuracy = {method: (0.50, 0.64) if method.endswith("1shot") else (0.47, 0.66) for method in TRAINED}
    accuracy |= {BATCH: (0.51, 0.67), DEEPER: (0.60, 0.75)}
    accuracy |= {name.replace("_", "-"): value for name, value in others.items()}
    rows = [
        {"method": method, "shots": k, "accuracy": value, "training_minutes": 10.0, "training_images": 6e5}
        for method, values in accuracy.items()
        for k, value in zip(SHOTS, values, strict=True)
    ]
    gaps = [
        {"method": a["method"], "shots": a["shots"], "metric": "accuracy", "reference": b["method"], "ci95": ci95}
        | {"difference": a["accuracy"] - b["accuracy"]}
        for a in rows
        for b in rows
        if a["shots"] == b["shots"] and a["method"] != b["method"]
    ]
    return {"episodic": pd.DataFrame(rows), "episodic_differences": pd.DataFrame(gaps)}


def judged(name: str, found: dict[str, pd.DataFrame]) -> tuple[bool | None, str]:
    verdict = verdict_on(BY_NAME[name], Evidence(found))
    assert "nan" not in verdict.sentence
    return verdict.held, verdict.sentence


def test_batches_do_as_well_unless_one_method_is_better_at_one_number_of_shots() -> None:
    held, sentence = judged("episodes-are-not-necessary", tables())
    assert held and "1-shot 51.0 % by batches with Gauss (iso), 50.0 %" in sentence
    held, sentence = judged("episodes-are-not-necessary", tables(matching_fce_5shot=(0.4, 0.70)))
    assert held is False and "5-shot 67.0 % by batches with Gauss (iso), 70.0 % by Matching Network, full" in sentence
    assert judged("episodes-are-not-necessary", tables(ci95=0.05, meta_lstm_1shot=(0.53, 0.6)))[0]


def test_the_deeper_network_leads_by_about_six_points() -> None:
    assert judged("deeper-network-beats-prototypical", tables())[0]
    assert judged("deeper-network-beats-prototypical", tables(protonet_5shot=(0.47, 0.71)))[0] is False
    found = tables()
    found["episodic"] = found["episodic"][found["episodic"]["method"] != DEEPER]
    assert judged("deeper-network-beats-prototypical", found) == (None, f"Not tested: {DEEPER} was not run.")


def test_each_is_best_at_its_own_shots() -> None:
    held, sentence = judged("episodes-made-for-their-shots", tables())
    assert (
        held
        and "Prototypical Network (600k and 600k images): at 1 shot +3.0 ± 0.4 points, at 5 shots +2.0 ± 0.4 points"
        in sentence
    )
    assert judged("episodes-made-for-their-shots", tables(matching_1shot=(0.45, 0.64)))[0] is False
    assert judged("episodes-made-for-their-shots", tables(matching_1shot=(0.47, 0.66)))[0] is False
