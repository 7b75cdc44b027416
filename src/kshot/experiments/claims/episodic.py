"""Claims about training by episodes, tested with competitors that were trained here (Sections 1, 3 and 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.experiments.claims.verdict import Claim, Evidence, Gap, in_points
from kshot.experiments.episodic import BATCH, DEEPER, SHOTS, TRAINED
from kshot.experiments.names import label
from kshot.training.episodic import METHODS

__all__ = ["CLAIMS"]

PART = "episodic"
PROTOTYPICAL = tuple(method for method in TRAINED if method.startswith("protonet"))
ABOUT_SIX = 0.05


def _best(evidence: Evidence, methods: Sequence[str], shots: int) -> str:
    """Name the most accurate of methods at a number of shots."""
    return max(methods, key=lambda method: evidence.value(PART, method, "accuracy", shots=shots))


def _gap(evidence: Evidence, method: str, reference: str, shots: int) -> Gap:
    gap = evidence.gap(PART, method, reference, "accuracy", shots=shots)
    assert gap is not None, (method, reference, shots)
    return gap


def _said(evidence: Evidence, method: str, shots: int) -> str:
    return f"{100 * evidence.value(PART, method, 'accuracy', shots=shots):.1f} %"


def _thousands(evidence: Evidence, method: str) -> str:
    return f"{evidence.value(PART, method, 'training_images', shots=1) / 1000:.0f}"


def _batches_do_as_well(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in SHOTS:
        rival = _best(evidence, TRAINED, k)
        gap = _gap(evidence, BATCH, rival, k)
        held &= not gap.below
        words.append(
            f"{k}-shot {_said(evidence, BATCH, k)} by batches with Gauss (iso), {_said(evidence, rival, k)} by "
            f"{label(rival)} ({in_points(gap)})"
        )
    minutes = {method: evidence.value(PART, method, "training_minutes", shots=1) for method in (BATCH, *TRAINED)}
    times = ", ".join(f"{label(method)} {value:.0f}" for method, value in minutes.items())
    return held, f"{'; '.join(words)}.\nMinutes of training: {times}"


def _deeper_wins(evidence: Evidence) -> tuple[bool, str]:
    held, words = True, []
    for k in SHOTS:
        rival = _best(evidence, PROTOTYPICAL, k)
        lead = evidence.value(PART, DEEPER, "accuracy", shots=k) - evidence.value(PART, rival, "accuracy", shots=k)
        held &= lead >= ABOUT_SIX
        words.append(f"{k}-shot {_said(evidence, DEEPER, k)} against {_said(evidence, rival, k)}")
    return held, f"Gauss (iso) on the deeper network against the better Prototypical Network: {'; '.join(words)}."


def _made_for_its_shots(evidence: Evidence) -> tuple[bool, str]:
    held, lines = True, []
    for method in METHODS:
        one, five = f"{method}-1shot", f"{method}-5shot"
        at_one, at_five = _gap(evidence, one, five, 1), _gap(evidence, five, one, 5)
        held &= not at_one.below and not at_five.below and (at_one.above or at_five.above)
        seen = " and ".join(f"{_thousands(evidence, each)}k" for each in (one, five))
        lines.append(f"{label(method)} ({seen} images): at 1 shot {in_points(at_one)}, at 5 shots {in_points(at_five)}")
    return held, "\n".join(["Accuracy when trained at the shots of the test, over trained at the other:", *lines])


CLAIMS = (
    Claim(
        "episodes-are-not-necessary",
        "At equal network and time, batch training with Gauss (iso) is as accurate as training by episodes",
        PART,
        "This finding is contrary to the current belief that episodic training is necessary for good performance.",
        "1",
        "Held if at 1 and at 5 shots Gauss (iso) on the same network, trained by batches for about as long, is not "
        "below the most accurate method that was trained by episodes, beyond the interval of their paired difference.",
        _batches_do_as_well,
    ),
    Claim(
        "deeper-network-beats-prototypical",
        "A deeper network trained by batches beats Prototypical Networks by about six points",
        PART,
        "Our method achieves state-of-the-art and beats prototypical networks by a wide margin of about 6%.",
        "4.1",
        f"Held if the lead on the deeper network over the better of the two Prototypical Networks is at least "
        f"{100 * ABOUT_SIX:.0f} points at 1 and at 5 shots. Networks and training times differ, as in the paper.",
        _deeper_wins,
        methods=((PART, DEEPER),),
    ),
    Claim(
        "episodes-made-for-their-shots",
        "A method trained by episodes is best at the number of shots it was trained for",
        PART,
        "Both embedding and amortised inference methods improve when the system is trained for a specific k-shot task.",
        "3",
        "Held if no method is less accurate when trained at the shots it is tested at, beyond the interval of the "
        "paired difference, and each is more accurate at 1 or at 5 shots. Where the two of a method saw unequal "
        "numbers of images in training, that is part of the difference.",
        _made_for_its_shots,
    ),
)
