"""Claims about the regularisation constant of logistic regression (Section 4.1, Figs. 4 and 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.experiments.claims.verdict import Claim, Evidence, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLAIMS"]

PART = "figure4"
BARELY, MUCH = 0.10, 0.2
NEAR_ACCURACY, NEAR_LIKELIHOOD = 0.01, 0.05


def _sweep(evidence: Evidence, shots: int) -> pd.DataFrame:
    table = evidence.tables[PART]
    return table[table["shots"] == shots].set_index("C")


def _mark(evidence: Evidence, mark: str, column: str, shots: int) -> float:
    table = evidence.tables[f"{PART}_marks"]
    return float(table[(table["mark"] == mark) & (table["shots"] == shots)][column].iloc[0])


def _barely_moves(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in evidence.shots(PART):
        sweep = _sweep(evidence, k)
        accuracy, error = (float(sweep[column].max() - sweep[column].min()) for column in ("accuracy", "ece"))
        likelihood = float(sweep["log_likelihood"].max() - sweep["log_likelihood"].min())
        held &= accuracy <= BARELY and error >= MUCH
        words.append(f"{k}-shot {100 * accuracy:.1f} points, {likelihood:.2f} nats, ECE by {error:.2f}")
    return held, f"Over six decades of C the figures move by: {'; '.join(words)}."


def _not_both(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in evidence.shots(PART):
        sweep = _sweep(evidence, k)
        accurate, likely = (sweep.index[int(sweep[column].argmax())] for column in ("accuracy", "log_likelihood"))
        cost = float(sweep["accuracy"].max() - sweep["accuracy"].loc[likely])
        held &= accurate != likely
        words.append(
            f"{k}-shot: most accurate at C = {accurate:.2g}, likeliest at {likely:.2g}, which costs {100 * cost:.1f} "
            "points"
        )
    return held, f"{'; '.join(words)} (scikit-learn’s C)."


def _balance(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in evidence.shots(PART):
        sweep = _sweep(evidence, k)
        accuracy = float(sweep["accuracy"].max()) - _mark(evidence, "chosen", "accuracy", k)
        likelihood = float(sweep["log_likelihood"].max()) - _mark(evidence, "chosen", "log_likelihood", k)
        held &= accuracy <= NEAR_ACCURACY and likelihood <= NEAR_LIKELIHOOD
        words.append(f"{k}-shot {100 * max(accuracy, 0):.1f} points and {plain(max(likelihood, 0), 2)} nats")
    return held, f"The chosen C is below the best C of the sweep by: {'; '.join(words)}."


CLAIMS = (
    Claim(
        "accuracy-barely-moves",
        "Accuracy barely moves with C, calibration does",
        PART,
        "While the accuracy at k-shot time does not vary dramatically as the regularisation constant changes, the "
        "calibration does …",
        "4.1",
        f"Held if over the whole sweep accuracy moves by at most {100 * BARELY:.0f} points (“not dramatically”) and "
        f"ECE by at least {MUCH}, at every number of shots.",
        _barely_moves,
    ),
    Claim(
        "not-both-at-once",
        "No C is best in both accuracy and log-likelihood",
        PART,
        "… and jointly maximizing both quantities is not possible.",
        "4.1",
        "Held if at every number of shots the most accurate C of the sweep is not the one with the highest "
        "log-likelihood.",
        _not_both,
    ),
    Claim(
        "good-balance",
        "C = 2σ² strikes a good balance of the two",
        PART,
        "Log Reg (C = 2σ²) strikes a good balance between accuracy and log-likelihood.",
        "4.1",
        f"Held if at every number of shots the chosen C is within {100 * NEAR_ACCURACY:.0f} point of the most "
        f"accurate C of the sweep and within {NEAR_LIKELIHOOD} nats of the likeliest.",
        _balance,
        needs=(f"{PART}_marks",),
    ),
)
