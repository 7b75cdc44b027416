"""The project's own claims: what two calibrated numbers add to the paper's prior."""

from __future__ import annotations

from kshot.experiments.calibrated import CALIBRATED
from kshot.experiments.claims.verdict import Claim, Evidence, in_nats, in_points, plain
from kshot.experiments.names import label

__all__ = ["CLAIMS", "HALF_A_POINT"]

METHOD = CALIBRATED
LARGEST_ECE = {1: 0.03}
LARGEST_ECE_LATER = 0.015
HALF_A_POINT = 0.005
"""How much accuracy the calibrated prior may cost."""


def _calibrated(evidence: Evidence) -> tuple[bool, str]:
    errors = {k: evidence.value("figure2", METHOD, "ece", shots=k) for k in evidence.shots("figure2")}
    held = all(error <= LARGEST_ECE.get(k, LARGEST_ECE_LATER) for k, error in errors.items())
    words = ", ".join(
        f"{k}-shot {error:.3f} (Gauss (iso) {evidence.value('figure2', 'gauss-iso', 'ece', shots=k):.3f})"
        for k, error in errors.items()
    )
    return held, f"ECE on the new classes: {words}."


def _as_accurate(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in evidence.shots("figure2"):
        gap = evidence.gap("figure2", METHOD, "gauss-iso", "accuracy", shots=k)
        assert gap is not None
        held &= gap.difference >= -HALF_A_POINT
        own, half = (evidence.value("figure2", METHOD, column, shots=k) for column in ("accuracy", "accuracy_ci95"))
        words.append(f"{k}-shot {100 * own:.1f} % ± {100 * half:.1f}, against Gauss (iso) {in_points(gap)}")
    return held, "\n".join(["Accuracy:", *words])


def _likelier(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in evidence.shots("figure2"):
        own = evidence.value("figure2", METHOD, "log_likelihood", shots=k)
        table = evidence.tables["figure2"]
        others = table[(table["shots"] == k) & (table["method"] != METHOD)].dropna(subset=["log_likelihood"])
        best = others.sort_values("log_likelihood").iloc[-1]
        swept = evidence.tables["figure4"]
        oracle = swept[swept["shots"] == k]["log_likelihood"].max()
        held &= own > best["log_likelihood"] and own > oracle
        gap = evidence.gap("figure2", METHOD, str(best["method"]), "log_likelihood", shots=k)
        over = f" ({in_nats(gap)})" if gap is not None else ""
        words.append(
            f"{k}-shot {plain(own)}; best baseline {label(str(best['method']))} "
            f"{plain(best['log_likelihood'])}{over}; best C of the sweep, chosen on these very tasks, {plain(oracle)}"
        )
    return held, "\n".join(["Mean log-likelihood:", *words])


_NEEDS = (("figure2", METHOD),)

CLAIMS = (
    Claim(
        "calibrated-ece",
        "The calibrated prior’s ECE is at most 0.03 at 1 shot and 0.015 at 5 and 10",
        "figure2",
        "A scale of the prior and a temperature, fitted on simulated tasks of base classes, make the probabilities "
        "honest.",
        "kshot.calibrate",
        f"Held if the calibrated prior’s ECE is at most {LARGEST_ECE[1]} at 1 shot and {LARGEST_ECE_LATER} at 5 and "
        "10.",
        _calibrated,
        methods=_NEEDS,
        ours=True,
    ),
    Claim(
        "calibrated-accuracy",
        "The calibrated prior is about as accurate as the paper’s",
        "figure2",
        "… at hardly any cost in accuracy …",
        "kshot.calibrate",
        f"Held if at every number of shots its accuracy is at most {100 * HALF_A_POINT:.1f} points below that of Gauss "
        "(iso) on the same tasks.",
        _as_accurate,
        methods=_NEEDS,
        ours=True,
    ),
    Claim(
        "calibrated-likelihood",
        "The calibrated prior’s log-likelihood is above every baseline and every single C",
        "figure2",
        "… and with a log-likelihood that no single C reaches.",
        "kshot.calibrate",
        "Held if its log-likelihood is above every other method’s and above the best C of Fig. 4’s sweep, which is "
        "chosen with the answers in sight, at every number of shots.",
        _likelier,
        needs=("figure4",),
        methods=_NEEDS,
        ours=True,
    ),
)
