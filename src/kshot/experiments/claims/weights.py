"""Claims about the base weights themselves: their structure, and which density explains them (E.1, Table 9)."""

from __future__ import annotations

from kshot.experiments.claims.verdict import Claim, Evidence, plain
from kshot.experiments.names import label

__all__ = ["CLAIMS"]

FULL = ("gauss-full", "student-t")


def _full_explain_best(evidence: Evidence) -> tuple[bool, str]:
    table = evidence.tables["table9"].set_index("method")
    full, others = table.loc[list(FULL)], table.drop(index=list(FULL))
    worst, best = str(full["neg_log_prob"].idxmax()), str(others["neg_log_prob"].idxmin())
    lead = float(others["neg_log_prob"].min() - full["neg_log_prob"].max())
    error = float((others["standard_error"][best] ** 2 + full["standard_error"][worst] ** 2) ** 0.5)
    return lead > 2 * error, (
        f"{label(worst)} gives {plain(full['neg_log_prob'].max(), 1)} and the best of the others, "
        f"{label(best)}, {plain(others['neg_log_prob'].min(), 1)}: {lead:.1f} nats "
        f"{'better' if lead > 0 else 'worse'}. Gauss (iso) has {plain(table['neg_log_prob']['gauss-iso'], 1)}."
    )


def _order_of_table9(evidence: Evidence) -> tuple[bool, str]:
    table = evidence.tables["table9"].dropna(subset=["paper"]).set_index("method")
    ours, theirs, error = table["neg_log_prob"], table["paper"], table["standard_error"]
    swapped = []
    methods = [str(method) for method in table.index]
    for i, one in enumerate(methods):
        for other in methods[i + 1 :]:
            # Pairs that the paper itself leaves undecided do not count.
            apart = (
                abs(theirs[one] - theirs[other])
                > 2 * (table["paper_error"][one] ** 2 + table["paper_error"][other] ** 2) ** 0.5
            )
            surely = abs(ours[one] - ours[other]) > 2 * (error[one] ** 2 + error[other] ** 2) ** 0.5
            if apart and surely and (ours[one] - ours[other]) * (theirs[one] - theirs[other]) < 0:
                swapped.append(f"{label(one)} and {label(other)}")
    ranks = float(ours.rank().corr(theirs.rank()))
    if swapped:
        return False, f"Rank correlation {ranks:.2f}; the other way round: {'; '.join(swapped)}."
    return True, f"No pair that both tables tell apart is the other way round; rank correlation {ranks:.2f}."


def _structure(evidence: Evidence) -> tuple[bool, str]:
    row = evidence.tables["figure6_neighbours"].iloc[0]
    held = bool(row["p_value"] < 0.05)
    return held, (
        "The nearest neighbour of a weight vector is a class of the same superclass for "
        f"{100 * row['agreement']:.0f} % of the {row['classes']:.0f} classes, by chance {100 * row['chance']:.0f} % "
        f"(p {'<' if row['p_value'] < 0.001 else '='} {max(row['p_value'], 0.001):.3f}). Distances are between the "
        "vectors themselves, not in the picture."
    )


CLAIMS = (
    Claim(
        "structure-in-the-weights",
        "The base weights have structure: alike classes lie together",
        "figure6",
        "t-SNE embeddings of the learned last layer weights show sensible clusters, which highlights the structure "
        "exploited by the probabilistic model.",
        "4; E.1",
        "Held if nearest neighbours among the weight vectors share their superclass more often than by chance (10 "
        "000 permutations of the superclasses, p < 0.05).",
        _structure,
        needs=("figure6_neighbours",),
    ),
    Claim(
        "full-gaussians-explain-best",
        "Full Gaussians explain held-out weights better than all other models",
        "table9",
        "We find that all models behave very similar but that multivariate Gaussian models generally outperform "
        "other models.",
        "E.4",
        "Held if both Gaussians with a full covariance give held-out weights a lower negative log probability than "
        "every other model, beyond twice the standard error of the difference.",
        _full_explain_best,
    ),
    Claim(
        "order-of-table9",
        "The models stand in the order of Table 9",
        "table9",
        "Table 9: Gauss (iso) −175.9, Gauss (MAP prior) −196.1, Gauss (integr. prior) −200.6, GMM −179.0 to −181.6, "
        "Laplace −173.8 and −176.6.",
        "Table 9",
        "Held if no pair of models that both tables tell apart (by twice the standard error) stands in the other "
        "order here.",
        _order_of_table9,
    ),
)
