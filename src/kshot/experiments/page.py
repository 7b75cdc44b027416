"""One self-contained HTML page: the paper's sentences beside the figures, and in words whether each held."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.experiments.claims import Verdict
from kshot.experiments.page_style import CSS
from kshot.experiments.result import Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["page"]

_WORDS = {True: ("yes", "Held", "✓"), False: ("no", "Did not hold", "✗"), None: ("open", "Not tested", "–")}


def page(
    title: str,
    about: Sequence[str],
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    *,
    folder: Path,
    command: str,
    absent: Mapping[str, str] | None = None,
) -> str:
    """Write the page; figures are read as PNG from `folder` and embedded, so that the page stands alone.

    Args:
        title: of the page.
        about: its first paragraphs.
        results: in the order of the page.
        verdicts: of all claims.
        folder: where the results' files are.
        command: what made it all.
        absent: experiment -> why it was not run.

    """
    body = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(text)}</p>" for text in about)]
    body += _summary(verdicts, {result.name for result in results})
    for result in results:
        body += _section(result, [each for each in verdicts if each.claim.part == result.name], folder)
    body += _absent(absent or {})
    body.append(_footer(command))
    lines = ["<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">']
    lines += ['<meta name="viewport" content="width=device-width, initial-scale=1">', f"<title>{escape(title)}</title>"]
    lines += [f"<style>{CSS}</style>", "</head>", "<body>", *body, "</body>", "</html>"]
    return "\n".join(lines) + "\n"


def _summary(verdicts: Sequence[Verdict], shown: set[str]) -> list[str]:
    """Count what held, and list every claim with a link to where it is discussed."""
    paper = [each for each in verdicts if not each.claim.ours]
    tested = [each for each in paper if each.held is not None]
    held = sum(each.held is True for each in tested)
    tally = f"Of {len(tested)} claims of the paper tested here, {held} held and {len(tested) - held} did not"
    tally += f"; {len(paper) - len(tested)} were not tested." if len(tested) < len(paper) else "."
    rows = []
    for each in verdicts:
        kind, word, sign = _WORDS[each.held]
        text = escape(each.claim.short)
        text = f'<a href="#{escape(each.claim.name)}">{text}</a>' if each.claim.part in shown else text
        whose = "this project" if each.claim.ours else f"paper, {each.claim.where}"
        cells = (f'<span class="badge">{sign} {word}</span>', text, f'<span class="where">{escape(whose)}</span>')
        rows.append(f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return [f"<p>{tally}</p>", '<table class="summary"><tbody>', *rows, "</tbody></table>"]


def _section(result: Result, verdicts: Sequence[Verdict], folder: Path) -> list[str]:
    lines = [
        "<section>",
        f'<h2 id="{result.name}">{escape(result.title)}</h2>',
        f'<p class="where">{escape(result.where)}</p>',
    ]
    # The main figure, what the paper says of it, and then the rest.
    figures = [_figure(stem, picture.caption, folder) for stem, picture in result.pictures.items()]
    lines += figures[0]
    for each in verdicts:
        lines += _claim(each)
    for figure in figures[1:]:
        lines += figure
    if result.shown is not None:
        lines += ['<div class="wide">', _table(result.shown), "</div>"]
    names = ", ".join(
        f'<a href="{path.name}">{path.name}</a>'
        for stem in result.tables
        for path in sorted(folder.glob(f"{stem}.csv*"))
    )
    lines.append(f'<p class="files">Numbers: {names}</p>')
    if result.notes:
        lines += ['<ul class="notes">', *(f"<li>{escape(note)}</li>" for note in result.notes), "</ul>"]
    return [*lines, "</section>"]


def _absent(absent: Mapping[str, str]) -> list[str]:
    """Name what was not run, and why."""
    if not absent:
        return []
    items = [f"<li><code>{escape(name)}</code>: {escape(why)}</li>" for name, why in absent.items()]
    return ["<section>", '<h2 id="not-run">Not run</h2>', "<ul>", *items, "</ul>", "</section>"]


def _claim(verdict: Verdict) -> list[str]:
    kind, word, sign = _WORDS[verdict.held]
    first, *rest = verdict.sentence.split("\n")
    claim = verdict.claim
    quote = escape(claim.quote) if claim.ours else f"“{escape(claim.quote)}”"
    lines = [
        f'<div class="claim {kind}" id="{escape(claim.name)}">',
        f"<blockquote>{quote} <cite>({escape(claim.where)})</cite></blockquote>",
        f'<p><span class="badge">{sign} {word}.</span> {escape(first)}</p>',
    ]
    if rest:
        lines += ["<ul>", *(f"<li>{escape(item)}</li>" for item in rest), "</ul>"]
    return [*lines, f'<p class="rule">{escape(claim.rule)}</p>', "</div>"]


def _figure(stem: str, caption: str, folder: Path) -> list[str]:
    data = base64.b64encode((folder / f"{stem}.png").read_bytes()).decode()
    files = f'<a href="{stem}.png">PNG</a>, <a href="{stem}.svg">SVG</a>'
    return [
        "<figure>",
        f'<div class="wide"><img alt="{escape(caption)}" src="data:image/png;base64,{data}"></div>',
        f"<figcaption>{escape(caption)} ({files})</figcaption>",
        "</figure>",
    ]


def _table(shown: pd.DataFrame) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in shown.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in shown.itertuples(index=False)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _footer(command: str) -> str:
    from kshot import __version__

    return f"<footer>Made by kshot {__version__}: <code>{escape(command)}</code></footer>"
