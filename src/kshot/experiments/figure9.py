"""Fig. 9: every regularisation constant of logistic regression, on the features of every network (Appendix E.3)."""

from __future__ import annotations

from kshot.evaluation.logistic import variance_of
from kshot.experiments.figure4 import swept_tables
from kshot.experiments.networks import Networks, calibration_notes
from kshot.experiments.result import Options, Picture, Result
from kshot.experiments.stacked import stacked
from kshot.plots.sweep import tradeoff_figure
from kshot.plots.sweep_rows import sweep_rows

__all__ = ["figure9"]


def figure9(networks: Networks, options: Options, *, name: str = "figure9", where: str = "Fig. 9, E.3") -> Result:
    """Repeat the sweep of Fig. 4 for every network."""
    swept, marked, pictures = {}, {}, {}
    for network, features in networks.by_label.items():
        known = networks.name(network)
        swept[network], marked[network], _ = swept_tables(features, options, what=f"Fig. 9, {known}")
        pictures[f"{name}_{network}"] = Picture(
            tradeoff_figure(swept[network], marked[network], title=f"{known}: calibration against accuracy"),
            f"{known}: each dot is logistic regression with one C, from strong regularisation (dark) to none to speak "
            "of (bright); above, up and right is best; below, down and right. The dashed lines cross where "
            "cross-validation is.",
        )
    sweep, marks = stacked(swept), stacked(marked)
    names = {network: networks.name(network) for network in networks.by_label}
    title = f"The regularisation of logistic regression, by network ({options.tasks} tasks of five new classes)"
    summary = Picture(
        sweep_rows(sweep, marks, networks=names, title=title),
        "A row for each network, a line for each number of examples per class. The triangle is the C that the base "
        "weights give, the dashed line what cross-validation reaches, the star this project’s calibrated prior.",
    )
    variances = ", ".join(f"{names[each]} {variance_of(own):.5f}" for each, own in networks.by_label.items())
    return Result(
        name=name,
        title="Is the constant from the base weights a good one for every network?",
        where=where,
        tables={name: sweep, f"{name}_marks": marks},
        pictures={name: summary, **pictures},
        notes=(
            "The axis has scikit-learn’s C, which is the variance of the prior; the paper’s C is twice that. Variance "
            f"of the base weights, σ²: {variances}. It is what the weight decay of the last layer left.",
            *calibration_notes(networks),
        ),
    )
