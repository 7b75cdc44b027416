"""Claims about the networks: what depth and training images do to accuracy and to calibration (4.1, E.2, E.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshot.experiments.calibrated import CALIBRATED
from kshot.experiments.claims.closed import READINGS, SIMILAR
from kshot.experiments.claims.verdict import Claim, Evidence, Gap, in_nats, in_points
from kshot.experiments.names import label
from kshot.experiments.networks import NAMES

__all__ = ["CLAIMS"]

VGG, LESS, MORE = "vgg-500", "resnet34-500", "resnet34-600"
ALMOST_TEN = (0.07, 0.13)
ALIKE = 0.02


def _between(evidence: Evidence, network: str, reference: str, metric: str, shots: int) -> Gap:
    """Give the paired difference of Gauss (iso) between two networks."""
    table = evidence.tables["figure3_differences"].rename(columns={"network": "method"})
    gap = Evidence({"figure3_differences": table}).gap("figure3", network, reference, metric, shots=shots)
    assert gap is not None, (network, reference, metric, shots)
    return gap


def _one_network(evidence: Evidence, network: str) -> Evidence:
    """Keep what Fig. 8 says of one network."""
    stems = ("figure8", "figure8_differences")
    tables = {stem: evidence.tables[stem] for stem in stems if stem in evidence.tables}
    return Evidence({stem: table[table["network"] == network] for stem, table in tables.items()})


def _networks(evidence: Evidence, stem: str) -> list[str]:
    return [str(network) for network in dict.fromkeys(evidence.tables[stem]["network"])]


def _name(network: str) -> str:
    return NAMES.get(network, network)


def _more_accurate(evidence: Evidence, network: str, reference: str) -> tuple[bool, str]:
    gaps = {k: _between(evidence, network, reference, "accuracy", k) for k in evidence.shots("figure3")}
    words = ", ".join(f"{k}-shot {in_points(gap)}" for k, gap in gaps.items())
    sentence = f"Accuracy of Gauss (iso), {_name(network)} above {_name(reference)}: {words}."
    return all(gap.above for gap in gaps.values()), sentence


def _depth(evidence: Evidence) -> tuple[bool, str]:
    return _more_accurate(evidence, LESS, VGG)


def _images(evidence: Evidence) -> tuple[bool, str]:
    return _more_accurate(evidence, MORE, LESS)


def _ten_points(evidence: Evidence) -> tuple[bool, str]:
    at = 5 if 5 in evidence.shots("figure3") else evidence.shots("figure3")[-1]
    gap = _between(evidence, MORE, VGG, "accuracy", at)
    table = evidence.tables["figure3"]
    values = {each: Evidence({"figure3": table[table["network"] == each]}) for each in (VGG, MORE)}
    words = " and ".join(
        f"{100 * own.value('figure3', 'gauss-iso', 'accuracy', shots=at):.1f} % with {_name(each)}"
        for each, own in values.items()
    )
    low, high = ALMOST_TEN
    return gap.above and low <= gap.difference <= high, f"At {at} shots Gauss (iso) has {words}: {in_points(gap)}."


def _one_shot(evidence: Evidence) -> tuple[bool, str]:
    networks, shots = _networks(evidence, "figure8"), evidence.shots("figure8")
    own = {network: _one_network(evidence, network) for network in networks}
    lines, under = [], []
    for method in READINGS:
        better, similar, words = True, True, []
        for network in networks:
            gaps = {k: own[network].gap("figure8", "gauss-iso", method, "accuracy", shots=k) for k in shots}
            known = {k: gap for k, gap in gaps.items() if gap is not None}
            better &= 1 in known and known[1].above
            similar &= all(abs(gap.difference) <= SIMILAR for k, gap in known.items() if k > 1)
            words.append(f"{_name(network)} {', '.join(f'{k}-shot {in_points(gap)}' for k, gap in known.items())}")
        if better and similar:
            under.append(label(method))
        lines.append(f"{label(method)}: {'; '.join(words)}")
    first = (
        f"Across all networks it is true against {' and '.join(under)}"
        if under
        else "It is true across all networks under no reading"
    )
    return bool(under), "\n".join([f"{first}. Accuracy of Gauss (iso) above", *lines])


def _same_order(evidence: Evidence) -> tuple[bool, str]:
    networks = _networks(evidence, "figure8")
    own = {network: _one_network(evidence, network) for network in networks}
    papers = [each for each in evidence.methods("figure8") if each not in (CALIBRATED, *READINGS)]
    swapped = {reading: _swapped(own, [*papers, reading], evidence.shots("figure8")) for reading in READINGS}
    free = [label(reading) for reading in READINGS if not swapped[reading]]
    if free:
        return True, (
            f"With {' or '.join(free)} as its Log Reg no two of its methods stand in one order on one of "
            f"{len(networks)} networks and in the other on another."
        )
    return False, "\n".join(
        [
            f"With {label(READINGS[0])} as its Log Reg these stand one way on some networks and the other way on "
            "others, in accuracy; the other readings have such pairs too:",
            *swapped[READINGS[0]],
        ]
    )


def _swapped(own: Mapping[str, Evidence], methods: Sequence[str], shots: Sequence[int]) -> list[str]:
    """Name two methods of which one network says surely that the first is better, and another the second."""
    swapped = []
    for i, one in enumerate(methods):
        for other in methods[i + 1 :]:
            for k in shots:
                gaps = {each: own[each].gap("figure8", one, other, "accuracy", shots=k) for each in own}
                better = [each for each, gap in gaps.items() if gap is not None and gap.above]
                worse = [each for each, gap in gaps.items() if gap is not None and gap.below]
                if better and worse:
                    swapped.append(
                        f"{label(one)} and {label(other)} at {k}-shot ({', '.join(map(_name, better))} against "
                        f"{', '.join(map(_name, worse))})"
                    )
    return swapped


def _shallow_calibrated(evidence: Evidence) -> tuple[bool, str]:
    held, lines = True, []
    for deep in (LESS, MORE):
        if deep not in _networks(evidence, "figure3"):
            continue
        words = []
        for k in evidence.shots("figure3"):
            error = _between(evidence, VGG, deep, "ece", k)
            likely = _between(evidence, VGG, deep, "log_likelihood", k)
            held &= error.below and likely.above
            words.append(f"{k}-shot ECE {in_nats(error)}, log-likelihood {in_nats(likely)}")
        lines.append(f"against {_name(deep)}: {'; '.join(words)}")
    return held, "\n".join([f"Gauss (iso) on {_name(VGG)},", *lines])


def _alike_calibrated(evidence: Evidence) -> tuple[bool, str]:
    gaps = {k: _between(evidence, MORE, LESS, "ece", k) for k in evidence.shots("figure3")}
    words = ", ".join(f"{k}-shot {in_nats(gap)}" for k, gap in gaps.items())
    held = all(abs(gap.difference) <= ALIKE for gap in gaps.values())
    return held, f"ECE of Gauss (iso), {_name(MORE)} above {_name(LESS)}: {words}."


def _constant_everywhere(evidence: Evidence) -> tuple[bool, str]:
    held, lines = True, []
    for network in _networks(evidence, "figure8"):
        own, words = _one_network(evidence, network), []
        for k in (k for k in own.shots("figure8") if k > 1):
            gaps = {
                metric: own.gap("figure8", READINGS[0], "logreg-cv", metric, shots=k)
                for metric in ("accuracy", "log_likelihood", "ece")
            }
            right, likely, error = gaps["accuracy"], gaps["log_likelihood"], gaps["ece"]
            assert right is not None and likely is not None and error is not None, (network, k)
            held &= right.above and likely.above and error.below
            words.append(f"{k}-shot {in_points(right)}, {in_nats(likely)} nats, ECE {in_nats(error)}")
        lines.append(f"{_name(network)}: {'; '.join(words)}")
    return held, "\n".join([f"{label(READINGS[0])} against cross-validation:", *lines])


CLAIMS = (
    Claim(
        "deeper-is-better",
        "A deeper network is better at new classes",
        "figure3",
        "Both, deeper networks and larger number of training images, give rise to features that transfer better to "
        "k-shot learning.",
        "Fig. 3",
        "Held if Gauss (iso) is more accurate on the ResNet-34 than on the VGG, both trained on 500 images a class "
        "with one budget, at every number of shots beyond the paired 95 % interval.",
        _depth,
        needs=("figure3_differences",),
        networks=(VGG, LESS),
    ),
    Claim(
        "more-images-help",
        "More training images per class help with new classes",
        "figure3",
        "We find that the complexity of the feature extractor as well as training set size consistently correlate with "
        "the accuracy at k-shot time.",
        "4.1",
        "Held if Gauss (iso) is more accurate on the ResNet-34 trained on 600 images a class than on the one trained "
        "on 500 with the same budget, at every number of shots beyond the paired 95 % interval.",
        _images,
        needs=("figure3_differences",),
        networks=(LESS, MORE),
    ),
    Claim(
        "almost-ten-points",
        "Depth and images together give almost ten points at 5 shots",
        "figure3",
        "On 5-shot, Gauss (iso) achieves 65% accuracy with a VGG network and 74% with a ResNet trained with all "
        "available data, a significant increase of almost 10%.",
        "4.1",
        f"Held if at 5 shots the ResNet-34 on 600 images is {100 * ALMOST_TEN[0]:.0f} to {100 * ALMOST_TEN[1]:.0f} "
        "points above the VGG, beyond the paired interval.",
        _ten_points,
        needs=("figure3_differences",),
        networks=(VGG, MORE),
    ),
    Claim(
        "one-shot-across-networks",
        "Gauss (iso) is more accurate than Log Reg (2σ²) at 1 shot on every network",
        "figure8",
        "Gauss (iso) outperforms Log Reg (C = 2σ²) on 1-shot learning across models, and performs similarly on 5- and "
        "10-shot.",
        "4.1",
        "Held if there is one reading of the paper’s Log Reg that Gauss (iso) beats at 1 shot on every network, beyond "
        f"the paired interval, and is within {100 * SIMILAR:.0f} point of at 5 and 10 shots; the sentence says which.",
        _one_shot,
        methods=tuple(("figure8", method) for method in READINGS),
        networks=(VGG, LESS),
    ),
    Claim(
        "same-order-on-every-network",
        "The methods stand in the same order on every network",
        "figure8",
        "We highlight that for all three architectures the order of the different methods as well as the main messages "
        "are the same.",
        "Fig. 8",
        "Held if, under one reading of the paper’s Log Reg, no two of its methods are told apart beyond the paired "
        "interval in accuracy one way on one network and the other way on another, at the same number of shots.",
        _same_order,
        methods=tuple(("figure8", method) for method in READINGS),
        networks=(VGG, LESS),
    ),
    Claim(
        "shallow-is-better-calibrated",
        "The VGG is better calibrated than the deeper ResNets",
        "figure8",
        "Both ResNets behave very similarly on calibration whereas the VGG-style network performs better (lower ECE "
        "and higher log likelihood as well as more diagonal calibration curve).",
        "Fig. 8",
        "Held if Gauss (iso) has on the VGG a lower ECE and a higher log-likelihood than on each ResNet-34 of the same "
        "budget, at every number of shots, beyond the paired interval.",
        _shallow_calibrated,
        needs=("figure3", "figure3_differences"),
        networks=(VGG, LESS),
    ),
    Claim(
        "resnets-calibrated-alike",
        "The two ResNets are calibrated alike",
        "figure8",
        "Both ResNets behave very similarly on calibration …",
        "Fig. 8",
        f"Held if the ECE of Gauss (iso) on the two ResNet-34 of the same budget differs by at most {ALIKE} at every "
        "number of shots.",
        _alike_calibrated,
        needs=("figure3", "figure3_differences"),
        networks=(LESS, MORE),
    ),
    Claim(
        "constant-on-every-network",
        "C = 2σ² beats cross-validation on every network",
        "figure9",
        "The Bayesian inspired choice of the regularisation parameter strikes a good balance between accuracy and "
        "calibration and consistently outperforms cross-validated choice of the parameter.",
        "Fig. 9",
        "Held if on every network the paper’s C = 2σ² (prior variance σ²) beats cross-validation in accuracy, "
        "log-likelihood and ECE, at 5 and at 10 shots, each beyond the paired interval.",
        _constant_everywhere,
        needs=("figure8", "figure8_differences"),
        networks=(VGG, LESS),
    ),
)
