"""How the page looks: one column of text, light and dark, wide things scroll by themselves; nothing from elsewhere."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
:root { color-scheme: light dark; --ink: #1c1b19; --quiet: #6a665e; --paper: #fdfcf9; --line: #dcd8cf; --card: #f5f2ea;
  --yes: #00654a; --no: #a83c00; --open: #6a665e; --link: #0a5c94; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e2d8; --quiet: #a29d92; --paper: #171613; --line: #3a372f;
  --card: #211f1a; --yes: #4fc9a0; --no: #ff9a5c; --open: #a29d92; --link: #7dbcec; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2.5rem 1.1rem 5rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1.05rem/1.6 Georgia, "Times New Roman", serif; overflow-wrap: break-word; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 1.2rem; font-weight: 600; }
h2 { font-size: 1.5rem; line-height: 1.25; margin: 4rem 0 .2rem; padding-top: 1.4rem; border-top: 1px solid var(--line);
  font-weight: 600; }
p, ul, blockquote { max-width: 44rem; }
a { color: var(--link); }
.where, .files, .rule, figcaption, .notes, footer { color: var(--quiet); font: .86rem/1.5 system-ui, sans-serif; }
.where { margin: 0 0 1.4rem; }
.claim { margin: 1.3rem 0; padding: .2rem 0 .2rem 1rem; border-left: 4px solid var(--line); }
.claim.yes { border-color: var(--yes); } .claim.no { border-color: var(--no); }
.claim blockquote { margin: 0 0 .35rem; font-style: italic; }
.claim blockquote cite { font: .82rem system-ui, sans-serif; color: var(--quiet); white-space: nowrap; }
.claim p { margin: .25rem 0; } .claim ul { margin: .25rem 0; padding-left: 1.2rem; font-size: .95rem; }
.badge { font: 600 .8rem system-ui, sans-serif; letter-spacing: .02em; white-space: nowrap; }
.yes .badge { color: var(--yes); } .no .badge { color: var(--no); } .open .badge { color: var(--open); }
figure { margin: 2rem 0; }
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }
figure .wide { background: #fff; border: 1px solid var(--line); border-radius: 4px; padding: .5rem; }
figure img { display: block; width: 100%; min-width: 44rem; height: auto; }
figcaption { max-width: 44rem; margin-top: .5rem; }
table { border-collapse: collapse; font: .84rem/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem .28rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { color: var(--quiet); font-weight: 500; vertical-align: bottom; white-space: normal; min-width: 4.2rem; }
.summary td { white-space: normal; text-align: left; vertical-align: top; }
.summary td:first-child { white-space: nowrap; }
.summary { width: 100%; margin: 1.5rem 0; } .summary a { color: inherit; text-decoration: none; }
.summary a:hover { text-decoration: underline; } .summary .where { margin: 0; }
code { font: .88em ui-monospace, Menlo, Consolas, monospace; background: var(--card); padding: .1em .3em; }
footer { margin-top: 4rem; border-top: 1px solid var(--line); padding-top: 1rem; }
@media (max-width: 40rem) { body { font-size: 1rem; padding-top: 1.4rem; } h1 { font-size: 1.55rem; }
  .summary td:nth-child(3) { display: none; } }
@media print { figure img { min-width: 0; } h2 { break-after: avoid; } figure, .claim { break-inside: avoid; } }
"""
