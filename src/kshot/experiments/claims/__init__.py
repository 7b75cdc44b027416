"""Every claim of the paper that the results can be held against, and this project's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshot.experiments.claims import closed, episodic, models, online, ours, regularisation, weights
from kshot.experiments.claims.verdict import Claim, Evidence, Verdict, verdict_on
from kshot.experiments.result import Result

__all__ = ["CLAIMS", "Claim", "Evidence", "Verdict", "judge"]

CLAIMS: tuple[Claim, ...] = (
    *closed.CLAIMS,
    *ours.CLAIMS,
    *regularisation.CLAIMS,
    *online.CLAIMS,
    *weights.CLAIMS,
    *models.CLAIMS,
    *episodic.CLAIMS,
)


def judge(
    results: Mapping[str, Result], *, claims: Sequence[Claim] = CLAIMS, absent: Mapping[str, str] | None = None
) -> list[Verdict]:
    """Test claims on the results of a run; what lacks its experiment is not tested, and says so.

    Args:
        results: by the experiments' names.
        claims: which.
        absent: experiment -> why it could not be run.

    """
    evidence = Evidence.of(results)
    return [verdict_on(claim, evidence, absent=absent or {}) for claim in claims]
