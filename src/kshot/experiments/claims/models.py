"""Claims about models of the weights at k-shot time, by MAP and by sampling (Appendix E.4, Fig. 10)."""

from __future__ import annotations

from collections.abc import Callable

from kshot.experiments.claims.verdict import Claim, Evidence, Gap, in_nats, in_points
from kshot.experiments.names import label

__all__ = ["CLAIMS"]

PART = "figure10"
FULL = ("gauss-full", "student-t")
A_LITTLE = 0.05
SAME = 0.015
DEAR = 10


def _name(method: str) -> str:
    return label(method, inference=True)


def _gap(evidence: Evidence, method: str, reference: str, metric: str, shots: int) -> Gap:
    gap = evidence.gap(PART, method, reference, metric, shots=shots)
    assert gap is not None, (method, reference, metric, shots)
    return gap


def _gaps(evidence: Evidence, method: str, reference: str, metric: str) -> dict[int, Gap]:
    return {k: _gap(evidence, method, reference, metric, k) for k in evidence.shots(PART)}


def _simple_is_enough(evidence: Evidence) -> tuple[bool, str]:
    better = []
    for method in evidence.methods(PART):
        if method not in ("gauss-iso", "gauss-iso-calibrated"):
            for k, gap in _gaps(evidence, method, "gauss-iso", "accuracy").items():
                if gap.above:
                    better.append(f"{_name(method)} at {k}-shot ({in_points(gap)})")
    if better:
        return False, f"More accurate beyond the paired interval: {'; '.join(better)}."
    return True, "No model is more accurate than Gauss (iso) MAP beyond the paired interval, at any number of shots."


def _underperforms(method: str) -> Callable[[Evidence], tuple[bool, str]]:
    def judge(evidence: Evidence) -> tuple[bool, str]:
        accuracy = _gaps(evidence, method, "gauss-iso", "accuracy")
        likelihood = _gaps(evidence, method, "gauss-iso", "log_likelihood")
        held = all(gap.below for gap in accuracy.values()) and all(gap.below for gap in likelihood.values())
        likely = all(gap.below for gap in likelihood.values())
        first = "Yes, in both" if held else ("In log-likelihood only" if likely else "Not at every number of shots")
        words = "; ".join(f"{k}-shot {in_points(accuracy[k])}, {in_nats(likelihood[k])} nats" for k in accuracy)
        return held, f"{first}. Against Gauss (iso): {words}."

    return judge


def _gauss_better_calibrated(evidence: Evidence) -> tuple[bool, str]:
    words, held = [], True
    for k in evidence.shots(PART):
        gaps = {m: _gap(evidence, m, "laplace-diag", "ece", k) for m in ("gauss-iso", *FULL)}
        held &= all(gap.below for gap in gaps.values())
        right = evidence.value(PART, "laplace-diag", "accuracy", shots=k)
        words.append(
            f"{k}-shot (Laplace has {100 * right:.0f} % right and ECE "
            f"{evidence.value(PART, 'laplace-diag', 'ece', shots=k):.3f}) "
            + ", ".join(f"{label(method)} {in_nats(gap)}" for method, gap in gaps.items())
        )
    likelier = all(
        _gap(evidence, method, "laplace-diag", "log_likelihood", k).above
        for method in ("gauss-iso", *FULL)
        for k in evidence.shots(PART)
    )
    also = (" In log-likelihood all three Gaussians are better at every number of shots." if likelier else "") + (
        " A method that knows nothing and says so has an ECE near zero: see Laplace at 1 shot." if not held else ""
    )
    return held, "\n".join([f"{also.strip()} ECE above that of Laplace (diag), all by MAP:".strip(), *words])


def _sampling_better_calibrated(evidence: Evidence) -> tuple[bool, str]:
    words, gains = [], []
    for family in FULL:
        gaps = _gaps(evidence, f"{family}:nuts", "gauss-iso", "ece")
        own = _gaps(evidence, f"{family}:nuts", family, "ece")
        gains += list(gaps.values())
        words.append(
            f"{_name(family + ':nuts')}: "
            + ", ".join(f"{k}-shot {in_nats(gap)} (against its own MAP {in_nats(own[k])})" for k, gap in gaps.items())
        )
    held = all(gap.below for gap in gains) and all(-gap.difference <= A_LITTLE for gap in gains)
    better = all(gap.below for gap in gains)
    first = (
        "Better, and by more than a little"
        if better and not held
        else ("Yes" if held else "Not at every number of shots")
    )
    return held, "\n".join([f"{first}. ECE above that of Gauss (iso) MAP:", *words])


def _sampling_alike(evidence: Evidence) -> tuple[bool, str]:
    words, held = [], True
    for family in ("gauss-iso", *FULL):
        gaps = _gaps(evidence, f"{family}:nuts", family, "accuracy")
        held &= all(abs(gap.difference) <= SAME for gap in gaps.values())
        words.append(f"{label(family)}: " + ", ".join(f"{k}-shot {in_points(gap)}" for k, gap in gaps.items()))
    timings = evidence.tables[f"{PART}_timings"].groupby("method")["seconds"].sum()
    sampled, point = (sum(timings[family + by] for family in ("gauss-iso", *FULL)) for by in (":nuts", ""))
    dear = bool(sampled >= DEAR * point)
    held &= dear
    first = f"NUTS took {'more' if dear else 'less'} than {DEAR} times as long. Accuracy of NUTS above that of MAP:"
    return held, "\n".join([first, *words])


def _mixtures_do_not_help(evidence: Evidence) -> tuple[bool, str]:
    words, better = [], []
    for method in (each for each in evidence.methods(PART) if each.startswith("gmm-")):
        for metric, write in (("accuracy", in_points), ("log_likelihood", in_nats)):
            for k, gap in _gaps(evidence, method, "gauss-iso", metric).items():
                if gap.above:
                    better.append(f"{label(method)} at {k}-shot in {metric.replace('_', '-')} ({write(gap)})")
        gap = _gap(evidence, method, "gauss-iso", "accuracy", evidence.shots(PART)[-1])
        words.append(f"{label(method)} {in_points(gap)}")
    if better:
        return False, f"Above Gauss (iso) beyond the paired interval: {'; '.join(better)}."
    return True, f"None is above Gauss (iso). Accuracy at {evidence.shots(PART)[-1]} shots: {'; '.join(words)}."


_SAMPLED = tuple((PART, f"{family}:nuts") for family in FULL)

CLAIMS = (
    Claim(
        "simple-gaussian-is-enough",
        "No richer model, and no sampling, is more accurate than Gauss (iso) MAP",
        PART,
        "We found that the simple Gaussian model is on par with or outperforms other methods at k-shot time.",
        "4.2",
        "Held if no other model is more accurate than Gauss (iso) MAP beyond the paired 95 % interval, at any "
        "number of shots.",
        _simple_is_enough,
    ),
    Claim(
        "laplace-map-underperforms",
        "Laplace MAP underperforms",
        PART,
        "No statistically significant difference in accuracy is observed, with the exception of Laplace MAP and GMM "
        "(iso), which consistently underperforms. [Laplace MAP]",
        "E.4",
        "Held if Laplace (diag) MAP is below Gauss (iso) MAP in accuracy and log-likelihood at every number of "
        "shots, beyond the paired intervals.",
        _underperforms("laplace-diag"),
        methods=((PART, "laplace-diag"),),
    ),
    Claim(
        "gmm10-underperforms",
        "GMM (10, iso) underperforms",
        PART,
        "With the exception of GMM (10, iso) and Laplace, all methods are similar in terms of accuracy and "
        "log-likelihood. [GMM (10, iso)]",
        "Fig. 10",
        "Held if GMM (10, iso) MAP is below Gauss (iso) MAP in accuracy and log-likelihood at every number of "
        "shots, beyond the paired intervals.",
        _underperforms("gmm-10-iso"),
        methods=((PART, "gmm-10-iso"),),
    ),
    Claim(
        "mixtures-do-not-help",
        "Mixtures do not outperform the simple Gaussian",
        PART,
        "Interestingly, both GMM approaches are not able to outperform the other, simpler models.",
        "E.4",
        "Held if no mixture is above Gauss (iso) MAP in accuracy or log-likelihood beyond the paired interval, at "
        "any number of shots.",
        _mixtures_do_not_help,
    ),
    Claim(
        "gaussians-better-calibrated-than-laplace",
        "Gaussian priors are better calibrated than Laplace",
        PART,
        "Our methods are generally well calibrated, with Gaussian models generally better than Laplace models.",
        "E.4",
        "Held if the three Gaussians have a lower ECE than Laplace (diag) at every number of shots, all by MAP, "
        "beyond the paired intervals.",
        _gauss_better_calibrated,
        methods=tuple((PART, method) for method in (*FULL, "laplace-diag")),
    ),
    Claim(
        "sampling-a-little-better-calibrated",
        "NUTS is a little better calibrated than Gauss (iso) MAP",
        PART,
        "Gauss (integr. prior) HMC and Gauss (MAP) HMC are slightly better calibrated than our proposed Gauss (MAP) "
        "iso.",
        "E.4",
        "Held if both have a lower ECE than Gauss (iso) MAP at every number of shots, beyond the paired interval, "
        f"and by at most {A_LITTLE} (“slightly”).",
        _sampling_better_calibrated,
        methods=_SAMPLED,
    ),
    Claim(
        "sampling-alike-and-dear",
        "NUTS performs much as MAP does, at a far higher cost",
        PART,
        "Experiments using Hybrid Monte Carlo sampling … returned very similar performance to MAP estimation and at "
        "a much higher computational cost.",
        "4.2",
        f"Held if for the three Gaussians NUTS and MAP are within {100 * SAME:.1f} points of accuracy of each other "
        "at every number of shots, and NUTS takes at least ten times as long.",
        _sampling_alike,
        methods=(*_SAMPLED, (PART, "gauss-iso:nuts")),
    ),
)
