"""Claims about new classes beside old ones (Section 4.1, Fig. 5)."""

from __future__ import annotations

from kshot.experiments.calibrated import CALIBRATED
from kshot.experiments.claims.verdict import Claim, Evidence
from kshot.experiments.names import label

__all__ = ["CLAIMS"]

PART = "figure5"
BOTH = ("gauss-iso", "logreg-sigma2")
FORGETS, LEARNS_NOTHING = 0.5, 0.05
KEEPS, LEARNS = 0.05, 0.5
TWO_POINTS = (0.005, 0.04)


def _later(evidence: Evidence) -> list[int]:
    return [k for k in evidence.shots(PART) if k > 1]


def _lost(evidence: Evidence, method: str, shots: int) -> float:
    before = evidence.value(PART, method, "accuracy_old_before", shots=shots)
    return before - evidence.value(PART, method, "accuracy_old", shots=shots)


def _percent(evidence: Evidence, method: str, part: str) -> str:
    return ", ".join(
        f"{k}-shot {100 * evidence.value(PART, method, f'accuracy_{part}', shots=k):.1f} %"
        for k in evidence.shots(PART)
    )


def _before(evidence: Evidence, method: str) -> float:
    return evidence.value(PART, method, "accuracy_old_before", shots=evidence.shots(PART)[0])


def _likelihood_forgets(evidence: Evidence) -> tuple[bool, str]:
    before = _before(evidence, "logreg-mle")
    held = all(_lost(evidence, "logreg-mle", k) >= FORGETS * before for k in _later(evidence))
    return (
        held,
        f"Accuracy on the old classes was {100 * before:.1f} % and becomes {_percent(evidence, 'logreg-mle', 'old')}.",
    )


def _only_new_learns_nothing(evidence: Evidence) -> tuple[bool, str]:
    method = "logreg-sigma2-only-new"
    held = all(evidence.value(PART, method, "accuracy_new", shots=k) <= LEARNS_NOTHING for k in evidence.shots(PART))
    return held, f"Accuracy on the new classes: {_percent(evidence, method, 'new')}."


def _learned(evidence: Evidence, method: str) -> list[float]:
    return [evidence.value(PART, method, "accuracy_new", shots=k) for k in _later(evidence)]


def _old_and_new(evidence: Evidence, method: str) -> str:
    return (
        f"{label(method)}: old {_percent(evidence, method, 'old')} (before {100 * _before(evidence, method):.1f} %); "
        f"new {_percent(evidence, method, 'new')}"
    )


def _neither(evidence: Evidence) -> tuple[bool, str]:
    forget = [label(each) for each in BOTH if any(_lost(evidence, each, k) > KEEPS for k in _later(evidence))]
    fail = [label(each) for each in BOTH if any(right < LEARNS for right in _learned(evidence, each))]
    sentence = (
        f"Old classes are forgotten by {' and '.join(forget) or 'neither'}, new ones hardly learned by "
        f"{' and '.join(fail) or 'neither'}."
    )
    if not forget and all(right < LEARNS for each in BOTH for right in _learned(evidence, each)):
        sentence += (
            " With this network’s σ² the new classes’ logits are too small to win against the old ones’, which were "
            "trained without such a restraint."
        )
    methods = [*BOTH, *(each for each in (CALIBRATED,) if each in evidence.methods(PART))]
    return not forget and not fail, "\n".join([sentence, *(_old_and_new(evidence, each) for each in methods)])


def _two_points(evidence: Evidence) -> tuple[bool, str]:
    (low, high), held, lines = TWO_POINTS, True, []
    for method in BOTH:
        losses = {k: _lost(evidence, method, k) for k in _later(evidence)}
        held &= all(low <= loss <= high for loss in losses.values())
        words = ", ".join(f"{k}-shot {100 * loss:.1f} points".replace("-0.0 ", "0.0 ") for k, loss in losses.items())
        right = ", ".join(f"{100 * each:.1f} %" for each in _learned(evidence, method))
        lines.append(f"{label(method)}: {words}, while it has {right} of the new ones right")
    return held, "\n".join(["What is lost on the old classes:", *lines])


CLAIMS = (
    Claim(
        "maximum-likelihood-forgets",
        "Online, maximum likelihood forgets the old classes",
        PART,
        "For unregularised (MLE) logistic regression, the new weights completely dominate the old ones.",
        "4.1, online",
        f"Held if at 5 and 10 shots it loses more than {'half' if FORGETS == 0.5 else FORGETS} of its accuracy on "
        "the old classes.",
        _likelihood_forgets,
        methods=((PART, "logreg-mle"),),
    ),
    Claim(
        "only-new-fails",
        "Online, training without the old weights fails to learn the new classes",
        PART,
        "When training Logistic Regression without including the old weights (“only new”), the new weights are "
        "dominated by the old ones and fail to learn the new classes.",
        "4.1, online",
        f"Held if its accuracy on the new classes is at most {100 * LEARNS_NOTHING:.0f} % at every number of shots.",
        _only_new_learns_nothing,
        methods=((PART, "logreg-sigma2-only-new"),),
    ),
    Claim(
        "gauss-does-neither",
        "Online, Gauss (iso) and Log Reg (2σ²) neither forget nor fail to learn",
        PART,
        "Gauss (iso) and Log Reg (2σ²) strike a good trade-off between learning on new classes and forgetting of "
        "old classes.",
        "Fig. 5",
        f"Held if at 5 and 10 shots each loses at most {100 * KEEPS:.0f} points on the old classes and has at least "
        f"{100 * LEARNS:.0f} % of the new ones right. Log Reg is the prior N(0, σ²I), the paper’s C = 2σ².",
        _neither,
        methods=((PART, "logreg-sigma2"),),
    ),
    Claim(
        "two-points-on-the-old",
        "Online, Gauss (iso) and Log Reg (2σ²) lose about two points on the old classes",
        PART,
        "For 5- and 10-shot, Gauss (iso) and Log Reg (2σ²) only lose a couple of percent on the accuracy of the old "
        "classes, and perform well on the new classes.",
        "4.1, online",
        f"Held if each loses between {100 * TWO_POINTS[0]:.1f} and {100 * TWO_POINTS[1]:.0f} points (“a couple”) at 5 "
        "and 10 shots; how well they do on the new classes is the claim above.",
        _two_points,
        methods=((PART, "logreg-sigma2"),),
    ),
)
