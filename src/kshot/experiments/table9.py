"""Table 9: how well each family of priors explains base weights that it has not seen (Appendix E.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kshot.concepts.compare import compare_priors
from kshot.errors import UserError
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.experiments.superclasses import HELD_OUT, best_superclasses
from kshot.features import Features
from kshot.plots.held_out import held_out_figure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PAPER", "held_out_table", "table9"]

PAPER = {
    "gauss-iso": (-175.9, 0.3),
    "gauss-full": (-196.1, 0.5),
    "student-t": (-200.6, 0.4),
    "gmm-3-iso": (-179.0, 0.3),
    "gmm-3-diag": (-181.2, 0.3),
    "gmm-10-iso": (-181.6, 0.4),
    "gmm-10-diag": (-181.6, 0.4),
    "laplace-iso": (-173.8, 0.4),
    "laplace-diag": (-176.6, 0.5),
}
"""Table 9 of the paper for CIFAR-100: mean negative log probability of a held-out weight vector, and its error."""


def held_out_table(features: Features, options: Options) -> pd.DataFrame:
    """Give the table of `compare_priors`, in the paper's order, and the mixture over superclasses if there are any."""
    import pandas as pd

    if features.base_weights is None:
        raise UserError("Table 9 compares priors of base weights, and these features have none: set base_weights")
    table = compare_priors(features.base_weights, splits=options.splits, held_out=HELD_OUT, seed=options.seed)
    if features.base_groups is None:
        return table
    values, chosen = best_superclasses(features, splits=options.splits, seed=options.seed)
    means = values.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(len(means)))
    row = {"method": "gmm-superclass", "model": label("gmm-superclass"), "neg_log_prob": means.mean()}
    row |= {"standard_error": error, "behind": means.mean() - table["neg_log_prob"].min()} | chosen
    return pd.concat([table, pd.DataFrame([row])], ignore_index=True)


def table9(features: Features, options: Options, *, paper: bool = True) -> Result:
    """Compare the families by the probability they give to held-out base weights.

    Args:
        features: those whose base weights are held out in turn.
        options: see there.
        paper: whether the paper's own figures, of its own CIFAR-100 network, belong beside them.

    """
    options.progress("Table 9: held-out base weights")
    table = held_out_table(features, options)
    table["label"] = [label(method) for method in table["method"]]
    table["paper"] = [PAPER.get(method, (np.nan, np.nan))[0] if paper else np.nan for method in table["method"]]
    table["paper_error"] = [PAPER.get(method, (np.nan, np.nan))[1] if paper else np.nan for method in table["method"]]
    assert features.base_weights is not None
    classes, width = features.base_weights.shape
    caption = (
        "Each dot is one family of priors; farther right is better. Lengths, not places, can be compared between this "
        "network and the paper's, so both are shown as the gain over the isotropic Gaussian."
    )
    return Result(
        name="table9",
        title="Which density describes the weights of a class?",
        where="Table 9, Appendix E.4",
        tables={"table9": table},
        pictures={"table9": Picture(held_out_figure(table), caption)},
        shown=_shown(table),
        notes=(
            f"{HELD_OUT} of the {classes} weight vectors ({width} numbers each) are held out, the prior is fitted to "
            f"the others, and the negative log probability of a held-out vector is averaged over {options.splits} "
            "random splits: lower is better. The paper's table is of its own network, so the values themselves "
            "cannot agree.",
            "As in the paper, hyperparameters are those with the best mean over these same splits. They are in the "
            "CSV, and Fig. 10 uses them. Errors are standard errors over the splits, which share vectors: a little "
            "too small.",
            "The paper has no row for the mixture over superclasses; its hyperparameters come from a grid, by the "
            "same rule.",
        ),
    )


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    def cell(value: float, error: float) -> str:
        return "" if np.isnan(value) else f"{value:.1f} ± {error:.1f}".replace("-", "−")

    return pd.DataFrame(
        {
            "prior": table["label"],
            "this network": [cell(*pair) for pair in table[["neg_log_prob", "standard_error"]].to_numpy(float)],
            "the paper": [cell(*pair) for pair in table[["paper", "paper_error"]].to_numpy(float)],
        }
    )
