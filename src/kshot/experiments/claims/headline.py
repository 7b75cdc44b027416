"""Claims about Table 1: the paper's accuracy, and its lead over the competitors that it quotes (Section 4.1)."""

from __future__ import annotations

from kshot.experiments.calibrated import CALIBRATED
from kshot.experiments.claims.ours import HALF_A_POINT
from kshot.experiments.claims.verdict import Claim, Evidence, Gap, in_points
from kshot.experiments.names import label
from kshot.experiments.table1 import PAPER, PUBLISHED, QUOTED

__all__ = ["CLAIMS"]

PART = "table1"
METHOD = "gauss-iso"
PROTOTYPICAL = ("quoted-protonet-1shot", "quoted-protonet-5shot")
ABOUT_SIX = 0.05
LARGEST_ECE = 0.02


def _shots(evidence: Evidence) -> list[int]:
    table = evidence.tables[PART]
    return sorted(int(k) for k in table[table["method"] == METHOD]["shots"].unique())


def _figure(evidence: Evidence, method: str, shots: int) -> Gap:
    return Gap(*(evidence.value(PART, method, column, shots=shots) for column in ("accuracy", "accuracy_ci95")))


def _lead(evidence: Evidence, over: str, shots: int) -> Gap | None:
    """Give the lead over a published figure, its interval from both: the tasks are not the same. None without one."""
    own, theirs = _figure(evidence, METHOD, shots), _figure(evidence, over, shots)
    if theirs.difference != theirs.difference:
        return None
    return Gap(own.difference - theirs.difference, (own.ci95**2 + theirs.ci95**2) ** 0.5)


def _percent(gap: Gap) -> str:
    return f"{100 * gap.difference:.1f} ± {100 * gap.ci95:.1f} %"


def _as_accurate_as_the_paper(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in _shots(evidence):
        lead = _lead(evidence, PAPER, k)
        if lead is not None:
            held &= not lead.below
            own = _figure(evidence, METHOD, k)
            words.append(f"{k}-shot {_percent(own)} here, {_percent(_figure(evidence, PAPER, k))} in the paper")
            words[-1] += f" ({in_points(lead)})"
    return held, f"{'; '.join(words)}."


def _beats_quoted(evidence: Evidence) -> tuple[bool, str]:
    held, lines = True, []
    for method in QUOTED:
        leads = {k: _lead(evidence, method, k) for k in _shots(evidence)}
        found = {k: lead for k, lead in leads.items() if lead is not None}
        held &= all(lead.above for lead in found.values())
        words = ", ".join(f"{k}-shot {in_points(lead)}" for k, lead in found.items())
        if found:
            lines.append(f"{PUBLISHED[method][0]}: {words}")
    return held, "\n".join(["Accuracy of Gauss (iso) here above", *lines])


def _six_points(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in _shots(evidence):
        leads = [lead for lead in (_lead(evidence, method, k) for method in PROTOTYPICAL) if lead is not None]
        if leads:
            least = min(leads, key=lambda lead: lead.difference)
            held &= least.difference >= ABOUT_SIX
            words.append(f"{k}-shot {in_points(least)}")
    return held, f"Over the better of the two Prototypical Nets: {', '.join(words)}."


def _baselines_too(evidence: Evidence) -> tuple[bool, str]:
    below, words = [], []
    for method in evidence.methods("figure2"):
        if not (method.startswith("logreg-") or method == "nearest") or method == "logreg-mle":
            continue
        for k in _shots(evidence):
            best = max(_figure(evidence, each, k).difference for each in PROTOTYPICAL)
            own = evidence.value("figure2", method, "accuracy", shots=k)
            if own < best:  # never so where either is missing
                below.append(f"{label(method)} at {k}-shot, {100 * own:.1f} % against {100 * best:.1f} %")
            elif own >= best:
                words.append(own - best)
    if below:
        return False, f"Below the better Prototypical Net: {'; '.join(below)}."
    return True, f"All of them are above the better Prototypical Net, by {100 * min(words):.1f} points or more."


def _calibrated(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in _shots(evidence):
        gap = evidence.gap(PART, CALIBRATED, METHOD, "accuracy", shots=k)
        assert gap is not None, k
        error = evidence.value(PART, CALIBRATED, "ece", shots=k)
        held &= gap.difference >= -HALF_A_POINT and (k == 1 or error <= LARGEST_ECE)
        before = evidence.value(PART, METHOD, "ece", shots=k)
        words.append(f"{k}-shot accuracy {in_points(gap)}, ECE {error:.3f} (the paper’s prior {before:.3f})")
    return held, f"Against the paper’s prior: {'; '.join(words)}."


CLAIMS = (
    Claim(
        "as-accurate-as-the-paper",
        "The accuracy of the paper’s Table 1 is reached",
        PART,
        "ResNet-34 + Isotropic Gaussian (ours): 56.3 ± 0.4 %, 73.9 ± 0.3 %, 78.5 ± 0.3 %.",
        "Table 1",
        "Held if the accuracy here is at no number of shots below the paper’s beyond the interval of their difference.",
        _as_accurate_as_the_paper,
    ),
    Claim(
        "beats-the-quoted-competitors",
        "Gauss (iso) is more accurate than every competitor that the paper quotes",
        PART,
        "Our best method, an isotropic Gaussian model using ResNet-34 features consistently outperforms all competing "
        "methods by a wide margin.",
        "Table 1",
        "Held if the accuracy here is above every quoted figure of Table 1, at 1 and at 5 shots, beyond the interval "
        "of the difference.",
        _beats_quoted,
    ),
    Claim(
        "six-points-over-prototypical",
        "The lead over Prototypical Nets is about six points",
        PART,
        "Our method achieves state-of-the-art and beats prototypical networks by a wide margin of about 6%.",
        "4.1",
        f"Held if the lead over the better of their two rows is at least {100 * ABOUT_SIX:.0f} points at 1 and at 5 "
        "shots (the paper’s own are 6.9 and 5.7).",
        _six_points,
    ),
    Claim(
        "baselines-beat-prototypical",
        "Simple baselines on the same features beat Prototypical Nets too",
        PART,
        "The baseline methods using the same feature extractor are also state-of-the-art compared to prototypical "
        "networks.",
        "4.1",
        "Held if nearest neighbour and every logistic regression with a regularisation, at 1 and at 5 shots, are at "
        "least as accurate as the better of the two rows of Prototypical Nets.",
        _baselines_too,
        needs=("figure2",),
    ),
    Claim(
        "calibrated-beside-the-paper",
        "The calibrated prior costs at most half a point, and its ECE is at most 0.02 at 5 and 10 shots",
        PART,
        "A scale of the prior and a temperature make the paper’s prior honest, at no cost in accuracy.",
        "kshot.calibrate",
        f"Held if at no number of shots the calibrated prior is more than {100 * HALF_A_POINT:.1f} points below Gauss "
        f"(iso), and its ECE is at most {LARGEST_ECE} at 5 and 10 shots.",
        _calibrated,
        methods=((PART, CALIBRATED),),
        ours=True,
    ),
)
