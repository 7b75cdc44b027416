"""Fig. 10: every model of the weights and every way of inference of Tables 7 and 8, the protocol of Appendix E.4."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.evaluation.outcome import Outcome
from kshot.experiments.calibrated import CALIBRATED, calibration_note, can_calibrate
from kshot.experiments.chosen import ChosenPrior, as_pairs, hyperparameters, sampling_log
from kshot.experiments.compared import compared, outcome_tables, shown_table
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.experiments.table9 import held_out_table
from kshot.features import Features
from kshot.plots.calibration import calibration_grid
from kshot.plots.dots import dot_figure
from kshot.plots.scatter import error_against_accuracy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BY_MAP", "BY_NUTS", "figure10"]

BY_MAP = (
    "gauss-iso",
    "gauss-full",
    "student-t",
    "gmm-superclass",
    "gmm-3-iso",
    "gmm-3-diag",
    "gmm-10-iso",
    "laplace-diag",
)
BY_NUTS = ("gauss-iso", "gauss-full", "student-t", "laplace-diag")
REFERENCES = ("gauss-iso", "gauss-full", "student-t", "laplace-diag")
PANEL_SHOTS = 5


def figure10(features: Features, options: Options, *, held_out: pd.DataFrame | None = None) -> Result:
    """Compare all priors by MAP and, unless `options.nuts` is false, the four of them by NUTS.

    Args:
        features: new classes and base weights.
        options: see there.
        held_out: the table of `held_out_table`, for its hyperparameters; made here if it is not given.

    """
    options.progress("Fig. 10: hyperparameters from held-out base weights")
    known = held_out_table(features, options) if held_out is None else held_out
    methods: list[Any] = [_method(family, known, options) for family in BY_MAP if family in set(known["method"])]
    if can_calibrate(features):
        methods.insert(1, CALIBRATED)
    if options.nuts:
        methods += [_method(family, known, options, sampled=True) for family in BY_NUTS]
    outcomes = compared(features, methods, options, what="Fig. 10", protocol="splits")
    tables = outcome_tables("figure10", outcomes, references=REFERENCES)
    sampling = _sampling(methods, outcomes, options)
    if sampling is not None:
        tables["figure10_sampling"] = sampling
    return Result(
        name="figure10",
        title="Do richer models of the weights, or sampling, help?",
        where="Fig. 10, Tables 7 and 8, Appendix E.4",
        tables=tables,
        pictures=_pictures(tables["figure10"], outcomes, options),
        shown=shown_table(tables["figure10"], [_label(each) for each in dict.fromkeys(tables["figure10"]["method"])]),
        notes=(*_notes(options, sampling), *(() if can_calibrate(features) else (calibration_note(features),))),
    )


_label = partial(label, inference=True)


def _method(family: str, known: pd.DataFrame, options: Options, *, sampled: bool = False) -> ChosenPrior:
    chosen = as_pairs(hyperparameters(known, family))
    if not sampled:
        return ChosenPrior(family, family, chosen)
    return ChosenPrior(f"{family}:nuts", family, chosen, options.sampler, options.seed, options.cache)


def _pictures(figures: pd.DataFrame, outcomes: Sequence[Outcome], options: Options) -> dict[str, Picture]:
    methods = list(dict.fromkeys(figures["method"]))
    at = PANEL_SHOTS if PANEL_SHOTS in options.shots else options.shots[-1]
    curves = {(each.method, each.shots): each.curve() for each in outcomes if each.has_proba}
    dots = dot_figure(
        figures,
        label=_label,
        title=f"Models of the weights, by MAP and by sampling ({options.repeated} tasks of five new classes)",
        rules_after=(CALIBRATED if CALIBRATED in methods else "gauss-iso", "laplace-diag"),
    )
    scatter = error_against_accuracy(
        figures[figures["shots"] == at],
        label=_label,
        title=f"Calibration error against accuracy, {at} examples per class",
    )
    grid = calibration_grid(
        curves,
        methods=methods,
        shots=options.shots,
        label=_label,
        title="Calibration of every model, by examples per class (dashed: perfect; above it: too unsure)",
    )
    return {
        "figure10": Picture(
            dots,
            "Every model at 1, 5 and 10 examples per class; bars are 95 % intervals over the choices of classes, "
            "which are the same for all models, so that differences between models are far surer than the bars "
            "suggest.",
        ),
        "figure10_ece": Picture(scatter, "The same at five examples per class: lower right is best."),
        "figure10_calibration": Picture(grid, "Calibration curves, one panel per model."),
    }


def _sampling(methods: Sequence[Any], outcomes: Sequence[Outcome], options: Options) -> pd.DataFrame | None:
    """Give R-hat, effective draws and divergences of the sampled rows, from the logs beside the cache."""
    import pandas as pd

    if options.cache is None:
        return None
    by_name = {each.name: each for each in methods if isinstance(each, ChosenPrior)}
    lines = []
    for outcome in outcomes:
        if outcome.method.endswith(":nuts"):
            path = sampling_log(options.cache, by_name[outcome.method], outcome.tasks)
            if not path.is_file():
                continue
            log = json.loads(path.read_text())
            rhat, draws = np.array(log["rhat"]), np.array(log["ess"])
            lines.append(
                {
                    "method": outcome.method,
                    "shots": outcome.shots,
                    "rhat_median": float(np.median(rhat)),
                    "rhat_largest": float(rhat.max()),
                    "rhat_above_1.05": int((rhat > 1.05).sum()),
                    "effective_draws_median": float(np.median(draws)),
                    "effective_draws_least": float(draws.min()),
                    "divergences": int(np.sum(log["divergences"])),
                    "tasks": len(rhat),
                }
            )
    return pd.DataFrame(lines) if lines else None


def _notes(options: Options, sampling: pd.DataFrame | None) -> tuple[str, ...]:
    notes = [
        f"{options.repeated // 10} random choices of 5 of the new classes, 10 tasks each, {options.queries} queries "
        "per class, the same for all models. Intervals take the choice of classes as the unit: ten tasks of the "
        "same classes are not independent.",
        "Hyperparameters are those of Table 9. The paper’s Table 7 calls “Gauss (MAP prior)” isotropic, a misprint: "
        "it is the full covariance. Its Fig. 10 speaks of GMM (10, iso) and its Table 8 of GMM (3, iso): both are "
        "here.",
    ]
    if options.nuts:
        sampler = options.sampler
        notes.append(
            f"NUTS: {sampler.chains} chains, each {sampler.warmup} steps of warm-up and {sampler.draws} draws, on all "
            "tasks. (The paper calls it HMC.)"
        )
    if sampling is not None:
        poor, all_tasks = int(sampling["rhat_above_1.05"].sum()), int(sampling["tasks"].sum())
        notes.append(
            f"R-hat is above 1.05 in {poor} of {all_tasks} fits, and {int(sampling['divergences'].sum())} steps "
            "diverged; figure10_sampling.csv has the numbers of each row."
        )
    return tuple(notes)
