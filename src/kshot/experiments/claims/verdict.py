"""A sentence of the paper, the rule by which it is tested, and what the results say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kshot.evaluation.paired import ROUNDING
from kshot.experiments.result import Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Claim", "Evidence", "Gap", "Verdict", "in_nats", "in_points", "plain", "verdict_on"]


@dataclass(frozen=True)
class Gap:
    """A paired difference over the same tasks, with the half-width of its 95 % interval."""

    difference: float
    ci95: float

    @property
    def above(self) -> bool:
        """Whether it is above zero beyond its interval."""
        return self.difference > self.ci95 + ROUNDING

    @property
    def below(self) -> bool:
        """Whether it is below zero beyond its interval."""
        return self.difference < -self.ci95 - ROUNDING


@dataclass(frozen=True, eq=False)
class Evidence:
    """The tables that claims are tested on.

    Args:
        tables: file stem -> table, of all experiments that were run.

    """

    tables: Mapping[str, pd.DataFrame]

    @classmethod
    def of(cls, results: Mapping[str, Result]) -> Evidence:
        """Collect the tables of results."""
        return cls({stem: table for result in results.values() for stem, table in result.tables.items()})

    def shots(self, name: str) -> list[int]:
        """Give the numbers of shots of a table."""
        return sorted(int(k) for k in self.tables[name]["shots"].unique())

    def methods(self, name: str) -> list[str]:
        """Give the methods of a table in its order."""
        return [str(method) for method in dict.fromkeys(self.tables[name]["method"])]

    def value(self, name: str, method: str, column: str, *, shots: int) -> float:
        """Give one figure of a method, NaN where there is none."""
        table = self.tables[name]
        row = table[(table["method"] == method) & (table["shots"] == shots)]
        return float(row[column].iloc[0]) if len(row) else float("nan")

    def gap(self, name: str, method: str, reference: str, metric: str, *, shots: int) -> Gap | None:
        """Give a paired difference, method − reference; None where either does not give that metric."""
        table = self.tables[f"{name}_differences"]
        for one, other, sign in ((method, reference, 1), (reference, method, -1)):
            at = (table["method"] == one) & (table["reference"] == other)
            row = table[at & (table["shots"] == shots) & (table["metric"] == metric)]
            if len(row):
                return Gap(sign * float(row["difference"].iloc[0]), float(row["ci95"].iloc[0]))
        return None


@dataclass(frozen=True)
class Claim:
    """A claim of the paper (or, where `ours`, of this project) and its test.

    Args:
        name: its name in the table of claims.
        short: the claim in a few words.
        part: the experiment beside which it stands.
        quote: the sentence.
        where: where it stands in the paper.
        rule: the test in words, thresholds included.
        judge: from evidence to whether it held, and a sentence with the numbers.
        needs: tables of other experiments without which it cannot be tested.
        methods: methods without which it cannot be tested, each as (table, method).
        networks: labels of networks without which it cannot be tested, in the table of its part.
        ours: whether it is this project's own.

    """

    name: str
    short: str
    part: str
    quote: str
    where: str
    rule: str
    judge: Callable[[Evidence], tuple[bool, str]]
    needs: tuple[str, ...] = ()
    methods: tuple[tuple[str, str], ...] = ()
    networks: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim.

    Args:
        claim: what was tested.
        held: None where it was not tested.
        sentence: why, with the numbers; lines after the first are items of a list.

    """

    claim: Claim
    held: bool | None
    sentence: str


def verdict_on(claim: Claim, evidence: Evidence, *, absent: Mapping[str, str] | None = None) -> Verdict:
    """Test a claim, or say why it cannot be; `absent` says why an experiment could not be run."""
    for table in (claim.part, *claim.needs):
        if table not in evidence.tables:
            why = (absent or {}).get(table.partition("_")[0])
            return Verdict(claim, None, f"Not tested: {table} was not run{f': {why}' if why else ''}.")
    for network in claim.networks:
        if network not in set(evidence.tables[claim.part]["network"]):
            return Verdict(claim, None, f"Not tested: no features of {network} were given.")
    for table, method in claim.methods:
        if method not in evidence.methods(table):
            why = " (--no-nuts)" if method.endswith(":nuts") else ""
            return Verdict(claim, None, f"Not tested: {method} was not run{why}.")
    held, sentence = claim.judge(evidence)
    return Verdict(claim, bool(held), sentence)


def plain(value: float, digits: int = 3) -> str:
    """Write a number with a real minus sign, and none before zero.

    >>> plain(-1.28651), plain(-0.0001)
    ('−1.287', '0.000')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def in_points(gap: Gap) -> str:
    """Write a difference of fractions in percentage points.

    >>> in_points(Gap(-0.0142, 0.003)), in_points(Gap(-0.0001, 0.0))
    ('−1.4 ± 0.3 points', '0.0 ± 0.0 points')
    """
    return f"{_signed(100 * gap.difference, 1)} ± {100 * gap.ci95:.1f} points"


def in_nats(gap: Gap) -> str:
    """Write a difference of log-likelihoods, or of calibration errors, with three digits."""
    return f"{_signed(gap.difference, 3)} ± {gap.ci95:.3f}"


def _signed(value: float, digits: int) -> str:
    return ("+" if round(value, digits) > 0 else "") + plain(value, digits)
