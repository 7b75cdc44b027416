"""Fig. 8: accuracy, log-likelihood and calibration of every method on the features of every network (Appendix E.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.experiments.calibrated import possible
from kshot.experiments.compared import compared, outcome_tables, shown_table
from kshot.experiments.figure2 import MAIN
from kshot.experiments.names import label
from kshot.experiments.networks import Networks, calibration_notes
from kshot.experiments.result import Options, Picture, Result
from kshot.experiments.stacked import stacked
from kshot.plots.networks import panel_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["figure8"]

BESIDES = ("logreg-sigma2", "logreg-ovr")
"""The other readings of the paper's Log Reg (2σ²): in the tables, not in the panels."""

PANEL_SHOTS = 5


def figure8(networks: Networks, options: Options, *, name: str = "figure8", where: str = "Fig. 8, E.2") -> Result:
    """Repeat Fig. 2 for every network."""
    at = PANEL_SHOTS if PANEL_SHOTS in options.shots else options.shots[-1]
    kept: dict[str, dict[str, pd.DataFrame]] = {"": {}, "_differences": {}, "_calibration": {}}
    rows, shown = {}, {}
    for network, features in networks.by_label.items():
        known = networks.name(network)
        methods = possible([*MAIN, *BESIDES], features)
        outcomes = compared(features, methods, options, what=f"Fig. 8, {known}")
        tables = outcome_tables(name, outcomes, references=methods)
        for suffix, by_network in kept.items():
            by_network[network] = tables[name + suffix]
        figures = tables[name]
        drawn = [each for each in outcomes if each.method in MAIN]
        curves = {each.method: each.curve() for each in drawn if each.shots == at and each.has_proba}
        rows[known] = figures[figures["method"].isin(MAIN)], curves
        shown[known] = shown_table(figures, [label(method) for method in dict.fromkeys(figures["method"])])
    drawn_methods = [each for each in MAIN if any(each in set(table["method"]) for table, _ in rows.values())]
    title = f"The same methods on features of different networks ({options.tasks} tasks of five new classes)"
    return Result(
        name=name,
        title="Do the findings hold for every network, and is the deeper one as well calibrated?",
        where=where,
        tables={name + suffix: stacked(by_network) for suffix, by_network in kept.items()},
        pictures={
            name: Picture(
                panel_rows(rows, methods=drawn_methods, shots=at, label=label, title=title),
                "A row for each network: accuracy and log-likelihood against the number of examples, calibration error "
                f"and calibration curves at {at} examples per class. A curve above the diagonal is too unsure, one "
                "below it too sure.",
            )
        },
        shown=stacked(shown),
        notes=(
            "Tasks and images are the same for all networks. Methods and readings are those of Fig. 2.",
            *calibration_notes(networks),
        ),
    )
