"""The report as one HTML file that opens anywhere: figures inside it, no scripts, nothing fetched."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from osamd import __version__
from osamd.paper.methods import KNOWN
from osamd.prequential.report import described, headline, notes, tables
from osamd.prequential.runs import Outcome
from osamd.reporting.tables import Table

CATEGORIES_SHOWN = 8

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; max-width: 46rem; margin: 0 auto;
  padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.lead { font-size: 1.15rem; margin: 0 0 1rem; }
.lead b { color: #a84700; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top;
  font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #888; font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
td:first-child { min-width: 6.5rem; }
.words td { overflow-wrap: break-word; }
@media (max-width: 30rem) { th, td { padding: .3rem .35rem; } }
figure { margin: 1rem 0 1.5rem; }
img { width: 100%; height: auto; }
figcaption, .small { color: #555; font-size: .875rem; }
""".strip()


def page(outcome: Outcome, figures: Mapping[str, tuple[bytes, str]]) -> str:
    """The page; `figures` are PNGs with their captions, by name."""
    method = KNOWN[outcome.settings["method"]].title
    parts = [
        f"<h1>{escape(method)} on {escape(outcome.table)}</h1>",
        f'<p class="lead"><b>{escape(headline(outcome))}</b></p>',
        *(f"<p>{escape(note)}</p>" for note in notes(outcome)),
        *(_table(table, titled=i > 0) for i, table in enumerate(tables(outcome))),
        "<h2>Over time</h2>",
        *(_figure(name, png, caption) for name, (png, caption) in figures.items()),
        "<h2>Columns</h2>",
        *_columns(outcome),
        "<h2>Settings</h2>",
        _grid(("setting", "value"), _settings(outcome), "words"),
        f'<p class="small">Prequential: every row is decided before its label is known, and the label is told only'
        f" where it was asked for. Written by osamd {escape(__version__)}; results.json holds the numbers.</p>",
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(method)} on {escape(outcome.table)}</title>",
            f"<style>{STYLE}</style></head>",
            "<body>",
            *parts,
            "</body></html>",
            "",
        ]
    )


def _table(table: Table, titled: bool) -> str:
    title = f"<h2>{escape(table.title)}</h2>" if titled else ""
    remarks = "".join(f'<p class="small">{escape(note)}</p>' for note in table.notes)
    return title + _grid(table.columns, table.rows) + remarks


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide {kind}"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _figure(name: str, png: bytes, caption: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    shown = escape(caption)
    return (
        f'<figure><img alt="{shown}" src="data:image/png;base64,{data}">'
        f"<figcaption>{shown} ({escape(name)}.png)</figcaption></figure>"
    )


def _columns(outcome: Outcome) -> list[str]:
    """Numbers that need no remark in a sentence, the other columns in a table."""
    plain = [c.name for c in outcome.columns if c.kind == "numeric" and not c.missing]
    lines = []
    for column in outcome.columns:
        if column.name in plain:
            continue
        used, remark = column.kind, column.note
        if column.kind == "categorical":
            shown = ", ".join(map(repr, column.categories[:CATEGORIES_SHOWN]))
            more = len(column.categories) - CATEGORIES_SHOWN
            used += f": {shown}" + (f" and {more} more" if more > 0 else "")
            remark += f"{'; ' if remark else ''}{column.unseen:,} values of others" if column.unseen else ""
        lines.append([column.name, used, f"{column.missing:,}" if column.missing else "", remark])
    said = [f"<p>Numeric, without gaps: {escape(', '.join(map(repr, plain)))}.</p>"] if plain else []
    return said + ([_grid(("column", "used as", "missing", "remarks"), lines, "words")] if lines else [])


def _settings(outcome: Outcome) -> list[list[str]]:
    settings = outcome.settings
    budget, most = settings["budget"], settings["max_labels"]
    return [
        ["method", KNOWN[settings["method"]].title],
        ["budget", "none" if budget is None else f"{100 * budget:g} % of the rounds"],
        ["most labels", "no limit" if most is None else f"{most:,}"],
        ["warm-up rows", f"{settings['warmup']:,}"],
        *([] if settings["eta"] is None else [["eta, sigma", f"{settings['eta']:.4g}, {settings['sigma']:g}"]]),
        ["labels come", described(outcome)],
        ["classes", ", ".join(map(repr, outcome.classes))],
        ["label", outcome.label],
        ["seed", str(settings["seed"])],
        ["seeds played", str(settings["seeds"])],
    ]
