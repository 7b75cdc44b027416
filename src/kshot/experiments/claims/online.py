"""Claims about new classes beside old ones (Section 4.1, Fig. 5)."""

from __future__ import annotations

from kshot.experiments.claims.verdict import Claim, Evidence

__all__ = ["CLAIMS"]

PART = "figure5"
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


def _gauss_does_neither(evidence: Evidence) -> tuple[bool, str]:
    kept = all(_lost(evidence, "gauss-iso", k) <= KEEPS for k in _later(evidence))
    learned = all(evidence.value(PART, "gauss-iso", "accuracy_new", shots=k) >= LEARNS for k in _later(evidence))
    sentence = (
        f"It {'keeps' if kept else 'loses'} the old classes ({_percent(evidence, 'gauss-iso', 'old')}, before "
        f"{100 * _before(evidence, 'gauss-iso'):.1f} %) and {'learns' if learned else 'hardly learns'} the new ones "
        f"({_percent(evidence, 'gauss-iso', 'new')})."
    )
    if not learned:
        sentence += (
            " With this network’s σ² the new classes’ logits are too small to win against the old ones’, which were "
            "trained without such a restraint."
        )
    if "gauss-iso-calibrated" in evidence.methods(PART):
        method = "gauss-iso-calibrated"
        sentence += (
            f" The calibrated prior: old {_percent(evidence, method, 'old')}; new {_percent(evidence, method, 'new')}."
        )
    return kept and learned, sentence


def _two_points(evidence: Evidence) -> tuple[bool, str]:
    losses = {k: _lost(evidence, "gauss-iso", k) for k in _later(evidence)}
    low, high = TWO_POINTS
    words = ", ".join(f"{k}-shot {100 * loss:.1f} points".replace("-0.0 ", "0.0 ") for k, loss in losses.items())
    learned = ", ".join(f"{100 * evidence.value(PART, 'gauss-iso', 'accuracy_new', shots=k):.1f} %" for k in losses)
    return all(low <= loss <= high for loss in losses.values()), (
        f"On the old classes Gauss (iso) loses {words}, while it has {learned} of the new ones right."
    )


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
        "Online, Gauss (iso) neither forgets nor fails to learn",
        PART,
        "Gauss (iso) and Log Reg (2σ²) strike a good trade-off between learning on new classes and forgetting of "
        "old classes.",
        "Fig. 5",
        f"Held if at 5 and 10 shots Gauss (iso) loses at most {100 * KEEPS:.0f} points on the old classes and has at "
        f"least {100 * LEARNS:.0f} % of the new ones right.",
        _gauss_does_neither,
    ),
    Claim(
        "two-points-on-the-old",
        "Online, Gauss (iso) loses about two points on the old classes",
        PART,
        "For 5- and 10-shot, Gauss (iso) and Log Reg (2σ²) only lose a couple of percent on the accuracy of the old "
        "classes, and perform well on the new classes.",
        "4.1, online",
        f"Held if the loss is between {100 * TWO_POINTS[0]:.1f} and {100 * TWO_POINTS[1]:.0f} points (“a couple”) at "
        "5 and 10 shots; how well it does on the new classes is the claim above.",
        _two_points,
    ),
)
