"""The claim of Fig. 7: the base classes that the paper names lie together (Appendix E.1)."""

from __future__ import annotations

from kshot.experiments.claims.verdict import Claim, Evidence

__all__ = ["CLAIMS"]

SURE = 0.05


def _together(evidence: Evidence) -> tuple[bool, str]:
    table = evidence.tables["figure7_groups"].set_index("group")
    together = table.loc["all"]
    words = []
    for group, row in table.drop(index="all").iterrows():
        words.append(
            f"{group} ({row['classes']:.0f} classes): {row['distance']:.2f}, by chance {row['chance']:.2f} "
            f"(p = {row['p_value']:.4f})"
        )
    first = (
        f"Mean distance between the weight vectors of the named classes {together['distance']:.2f}, of as many random "
        f"ones {together['chance']:.2f} (p = {together['p_value']:.4f}). By group:"
    )
    return bool(together["p_value"] < SURE), "\n".join([first, *words])


CLAIMS = (
    Claim(
        "named-classes-lie-together",
        "The classes that the paper finds together have alike weights here too",
        "figure7",
        "Goose, house finch, toucan, Arctic fox, green mamba and other animals are clustered on the top, with birds "
        "close to each other. Examples of other small clusters include poncho and miniskirt, or organ and oboe.",
        "Fig. 7",
        "Held if the weight vectors of the named classes are closer within their groups than random classes in their "
        f"place (10 000 permutations, all groups together, p < {SURE}). Distances are between the vectors, not in the "
        "picture.",
        _together,
        needs=("figure7_groups",),
    ),
)
