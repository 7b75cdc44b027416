"""Running the experiments of a plan in order: each one's files, then the claims and the page."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.errors import UserError
from kshot.experiments.claims import CLAIMS, Claim, Verdict, judge
from kshot.experiments.page import page
from kshot.experiments.result import Options, Result
from kshot.features import Features
from kshot.files import atomic_path
from kshot.plots.style import save

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Part", "Plan", "carry_out", "choose", "claims_table"]

Part = Callable[[Features, Options, Mapping[str, Result]], Result]
"""An experiment, given the results of those before it."""


@dataclass(frozen=True)
class Plan:
    """What `kshot reproduce` runs for one data set.

    Args:
        name: of the data set.
        features: the bundled features, or a file of them.
        title: of the page.
        about: paragraphs at the head of the page.
        parts: name -> experiment, in their order.
        claims: what its results are held against.
        absent: name -> why a part of the paper cannot be run here; the page says so.

    """

    name: str
    features: str
    title: str
    about: tuple[str, ...]
    parts: Mapping[str, Part]
    claims: tuple[Claim, ...] = CLAIMS
    absent: Mapping[str, str] = field(default_factory=dict)


def choose(plan: Plan, only: Sequence[str]) -> list[str]:
    """Give the names of the parts to run, in the plan's order; all of them if none is asked for.

    >>> choose(Plan("toy", "", "", (), {"table9": None, "figure2": None}), ["figure2"])  # type: ignore[dict-item]
    ['figure2']
    """
    for name in only:
        if name in plan.absent:
            raise UserError(f"--only: {name} cannot be run: {plan.absent[name]}")
        if name not in plan.parts:
            raise UserError(f"--only: there is no part {name!r} of {plan.name}; there are {', '.join(plan.parts)}")
    return [name for name in plan.parts if not only or name in only]


def carry_out(
    plan: Plan, features: Features, out: Path, *, options: Options, only: Sequence[str] = (), command: str = ""
) -> list[Verdict]:
    """Run the parts and write everything into a folder; give what became of each claim.

    Each part's files are written as soon as it is done. `command` is shown on the page.
    """
    names = choose(plan, only)
    results: dict[str, Result] = {}
    for name in names:
        results[name] = plan.parts[name](features, options, results)
        _write(results[name], out)
    options.progress("the page")
    absent = {} if only else plan.absent
    verdicts = judge(results, claims=plan.claims, absent=absent)
    _write_table(claims_table(verdicts), out / "claims.csv")
    text = page(plan.title, plan.about, list(results.values()), verdicts, folder=out, command=command, absent=absent)
    with atomic_path(out / "index.html") as temporary:
        temporary.write_text(text, "utf-8")
    return verdicts


def claims_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Put verdicts into a table: claim, held (true, false, or not tested), finding, quote, where, rule."""
    import pandas as pd

    words = {True: "true", False: "false", None: "not tested"}
    return pd.DataFrame(
        [
            {
                "claim": each.claim.name,
                "held": words[each.held],
                "finding": each.sentence.replace("\n", "; "),
                "quote": each.claim.quote,
                "where": each.claim.where,
                "rule": each.claim.rule,
            }
            for each in verdicts
        ]
    )


def _write(result: Result, out: Path) -> None:
    for stem, picture in result.pictures.items():
        for kind in ("png", "svg"):
            save(picture.figure, out / f"{stem}.{kind}")
    for stem, table in result.tables.items():
        # A row per task is many rows: these alone are compressed.
        _write_table(table, out / (f"{stem}.csv.gz" if stem.endswith("_per_task") else f"{stem}.csv"))


def _write_table(table: pd.DataFrame, path: Path) -> None:
    content = table.to_csv(index=False).encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
