"""Fig. 2 (and 8): the isotropic Gaussian against logistic regression and nearest neighbour, Section 4's protocol."""

from __future__ import annotations

from kshot.experiments.calibrated import calibration_note, can_calibrate, possible
from kshot.experiments.compared import compared, outcome_tables, shown_table
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.dots import dot_figure
from kshot.plots.panels import four_panels

__all__ = ["BESIDES", "MAIN", "figure2"]

MAIN = (
    "gauss-iso",
    "gauss-iso-calibrated",
    "logreg-cv",
    "logreg-2sigma2",
    "logreg-ovr-free-intercept",
    "nearest",
)
"""The methods of the four panels: the paper's, ours, and the paper's baselines, its "C = 2σ²" under two readings."""

BESIDES = ("logreg-sigma2", "logreg-ovr", "logreg-cv-logloss", "logreg-mle", "class-mean", "temperature", "svm")
"""What is run besides: other readings of its logistic regression, and what a user might take instead."""

REFERENCES = ("gauss-iso", "gauss-iso-calibrated", "logreg-cv", "nearest")
PANEL_SHOTS = 5


def figure2(
    features: Features, options: Options, *, name: str = "figure2", where: str = "Fig. 2, Section 4.1"
) -> Result:
    """Compare the paper's method with its baselines on tasks of five new classes."""
    outcomes = compared(features, possible([*MAIN, *BESIDES], features), options, what=where.partition(",")[0])
    tables = outcome_tables(name, outcomes, references=REFERENCES)
    figures = tables[name]
    at = PANEL_SHOTS if PANEL_SHOTS in options.shots else options.shots[-1]
    curves = {each.method: each.curve() for each in outcomes if each.shots == at and each.has_proba}
    main = figures[figures["method"].isin(MAIN)]
    title = f"Five new classes from a few examples each: {options.tasks} tasks, {5 * options.queries} queries each"
    panels = four_panels(
        main, {method: curve for method, curve in curves.items() if method in MAIN}, shots=at, label=label, title=title
    )
    dots = dot_figure(figures, label=label, title=title, rules_after=("gauss-iso-calibrated", "nearest"))
    return Result(
        name=name,
        title="Is a Gaussian prior better than tuning logistic regression?",
        where=where,
        tables=tables,
        pictures={
            name: Picture(
                panels,
                "Accuracy and log-likelihood against the number of examples (bars: 95 % intervals over tasks), and "
                f"at {at} examples per class the calibration error and the calibration curves. A curve above the "
                "diagonal is too unsure, one below it too sure.",
            ),
            f"{name}_all": Picture(dots, "The same figures for every baseline that was run."),
        },
        shown=shown_table(figures, [label(method) for method in dict.fromkeys(figures["method"])]),
        notes=(
            f"{options.tasks} tasks at each number of shots, the same for all methods: 5 of the "
            f"{len(features.names)} new classes, k examples of each, {options.queries} queries per class. Intervals "
            "are 95 % over tasks; ECE has 15 bins, pooled over all tasks.",
            "The paper’s C is not scikit-learn’s. Its prior is N(0, ½C), so its C = 2σ² is scikit-learn’s C = σ²: "
            "“prior variance σ²” below, which for new classes alone is the same model as Gauss (iso), because a "
            "mean that all classes share leaves the softmax. “sklearn’s C = 2σ²” is the paper’s sentence read "
            "literally. scikit-learn in 2017 fitted one-vs-rest with an intercept by default: the two one-vs-rest "
            "rows.",
            "Cross-validation: 13 values of C from 1e-5 to 10, min(5, k) stratified folds, scored by accuracy "
            "(scikit-learn’s default) or by log-loss; it cannot be done with one example per class.",
            "Nearest neighbour and class mean have no probabilities of their own: theirs are a softmax of "
            "similarity. The SVM has none at all.",
            *(() if can_calibrate(features) else (calibration_note(features),)),
        ),
    )
