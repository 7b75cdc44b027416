"""Claims about models of the weights at k-shot time, by MAP and by sampling (Appendix E.4, Fig. 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kshot.experiments.calibrated import OURS
from kshot.experiments.claims.verdict import Claim, Evidence, Gap, in_nats, in_points
from kshot.experiments.names import label

__all__ = ["CLAIMS"]

PART = "figure10"
FULL = ("gauss-full", "student-t")
A_LITTLE = 0.05
SAME = 0.015
SAME_NATS = 0.05
DEAR = 10
APART = ("laplace-diag", "gmm-3-iso", "gmm-10-iso")
"""The sentence on accuracy excepts Laplace MAP and "GMM (iso)"."""
MIXTURES = ("gmm-superclass", "gmm-3-iso")
"""The two of Table 8."""
METRICS = {"accuracy": 1, "log_likelihood": 1, "ece": -1}
"""Metric -> whether more of it is better."""


def _name(method: str) -> str:
    return label(method, inference=True)


def _gap(evidence: Evidence, method: str, reference: str, metric: str, shots: int) -> Gap:
    gap = evidence.gap(PART, method, reference, metric, shots=shots)
    assert gap is not None, (method, reference, metric, shots)
    return gap


def _gaps(evidence: Evidence, method: str, reference: str, metric: str) -> dict[int, Gap]:
    return {k: _gap(evidence, method, reference, metric, k) for k in evidence.shots(PART)}


def _others(evidence: Evidence) -> list[str]:
    """Give what is compared with Gauss (iso): the paper's models, not this project's."""
    return [method for method in evidence.methods(PART) if method not in OURS]


def _written(metric: str, gap: Gap) -> str:
    if metric == "accuracy":
        return in_points(gap)
    return f"{in_nats(gap)} nats" if metric == "log_likelihood" else f"ECE {in_nats(gap)}"


def _better(evidence: Evidence, method: str, metrics: Iterable[str]) -> list[str]:
    """Say where a method is better than Gauss (iso) MAP beyond the paired interval."""
    return [
        f"{k}-shot {_written(metric, gap)}"
        for metric in metrics
        for k, gap in _gaps(evidence, method, "gauss-iso", metric).items()
        if (gap.above if METRICS[metric] > 0 else gap.below)
    ]


def _simple_is_enough(evidence: Evidence) -> tuple[bool, str]:
    better = {method: _better(evidence, method, ["accuracy"]) for method in _others(evidence)}
    words = [f"{_name(method)} {', '.join(where)}" for method, where in better.items() if where]
    if words:
        return False, f"More accurate beyond the paired interval: {'; '.join(words)}."
    return True, "No model is more accurate than Gauss (iso) MAP beyond the paired interval, at any number of shots."


def _no_benefit(evidence: Evidence) -> tuple[bool, str]:
    better = {method: _better(evidence, method, METRICS) for method in _others(evidence)}
    words = [f"{_name(method)}: {', '.join(where)}" for method, where in better.items() if where]
    if words:
        return False, "\n".join(["Better than Gauss (iso) MAP beyond the paired interval:", *words])
    return True, "No model is better than Gauss (iso) MAP in any of the three beyond the paired interval."


def _accuracy_alike(evidence: Evidence) -> tuple[bool, str]:
    words = []
    for method in (each for each in _others(evidence) if each not in APART):
        gaps = _gaps(evidence, method, "gauss-iso", "accuracy")
        where = [f"{k}-shot {in_points(gap)}" for k, gap in gaps.items() if gap.above or gap.below]
        if where:
            words.append(f"{_name(method)}: {', '.join(where)}")
    if words:
        return False, "\n".join(["Another accuracy than Gauss (iso) MAP beyond the paired interval:", *words])
    return True, "No other model’s accuracy differs from that of Gauss (iso) MAP beyond the paired interval."


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
        right = _gaps(evidence, f"{family}:nuts", family, "accuracy")
        likely = _gaps(evidence, f"{family}:nuts", family, "log_likelihood")
        held &= all(abs(gap.difference) <= SAME for gap in right.values())
        held &= all(abs(gap.difference) <= SAME_NATS for gap in likely.values())
        each = (f"{k}-shot {in_points(right[k])}, {in_nats(likely[k])} nats" for k in right)
        words.append(f"{label(family)}: {'; '.join(each)}")
    timings = evidence.tables[f"{PART}_timings"].groupby("method")["seconds"].sum()
    sampled, point = (sum(timings[family + by] for family in ("gauss-iso", *FULL)) for by in (":nuts", ""))
    dear = bool(sampled >= DEAR * point)
    held &= dear
    first = f"NUTS took {'more' if dear else 'less'} than {DEAR} times as long. NUTS above MAP:"
    return held, "\n".join([first, *words])


def _mixtures_do_not_help(evidence: Evidence) -> tuple[bool, str]:
    last = evidence.shots(PART)[-1]
    lines, held = [], True
    for method in (each for each in evidence.methods(PART) if each.startswith("gmm-")):
        better = _better(evidence, method, ["accuracy", "log_likelihood"])
        held &= not (better and method in MIXTURES)
        gaps = [_written(metric, _gap(evidence, method, "gauss-iso", metric, last)) for metric in METRICS]
        above = f"above at {', '.join(better)}" if better else "never above"
        beside = "" if method in MIXTURES else " (not one of the two)"
        lines.append(f"{label(method)}{beside}: {above}; at {last} shots {', '.join(gaps)}")
    return held, "\n".join(["Against Gauss (iso) MAP, in accuracy and log-likelihood:", *lines])


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
        "no-benefit-of-complexity",
        "No richer model is better than Gauss (iso) MAP in accuracy, log-likelihood or calibration",
        PART,
        "Overall, we observe that there is no significant benefit of more complex methods over the simple isotropic "
        "Gaussian, either in terms of accuracy, log-likelihood or calibration.",
        "E.4",
        "Held if no other model is better than Gauss (iso) MAP in accuracy, log-likelihood or ECE beyond the paired "
        "95 % interval, at any number of shots.",
        _no_benefit,
    ),
    Claim(
        "accuracy-alike-among-models",
        "Apart from Laplace and isotropic mixtures, all models are as accurate as Gauss (iso) MAP",
        PART,
        "Among our models, no statistically significant difference in accuracy is observed, with the exception of "
        "Laplace MAP and GMM (iso) …",
        "E.4",
        "Held if no other model, by MAP or NUTS, differs from Gauss (iso) MAP in accuracy beyond the paired 95 % "
        "interval, at any number of shots. (The paper’s intervals are not paired, and so wider.)",
        _accuracy_alike,
    ),
    Claim(
        "laplace-map-underperforms",
        "Laplace MAP underperforms",
        PART,
        "… with the exception of Laplace MAP and GMM (iso), which consistently underperforms. [Laplace MAP]",
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
        "Held if neither mixture of Table 8, GMM (supercl.) and GMM (3, iso), is above Gauss (iso) MAP in accuracy or "
        "log-likelihood beyond the paired interval, at any number of shots. The others are given beside them.",
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
        f"Held if for the three Gaussians NUTS and MAP are within {100 * SAME:.1f} points of accuracy and {SAME_NATS} "
        "nats of each other at every number of shots, and NUTS takes at least ten times as long.",
        _sampling_alike,
        methods=(*_SAMPLED, (PART, "gauss-iso:nuts")),
    ),
)
