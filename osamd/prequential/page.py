"""The report as one HTML file that opens anywhere, light or dark, on a phone too: nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from osamd import __version__
from osamd.paper.methods import KNOWN
from osamd.prequential.changes_found import ADWIN_FOUND, Change, adwin_is_there
from osamd.prequential.outcomes import Outcome
from osamd.prequential.page_charts import (
    accuracy_chart,
    budgets_chart,
    estimate_chart,
    labels_chart,
    margin_chart,
    recall_chart,
)
from osamd.prequential.report import budgets_table, described, headline, tables
from osamd.prequential.sentences import advice, notes
from osamd.reporting.charts import SCRIPT, svg
from osamd.reporting.charts import STYLE as CHARTS
from osamd.reporting.tables import Table, counted

CATEGORIES_SHOWN = 8
MATRIX_CLASSES = 12
"""Classes in the matrix of confusion; those with the most mistakes where there are more."""
CHANGES_SHOWN = 6
"""The most changes in an open table; where there are more, the largest is told and the table opens on a click."""
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --text: #1b1b1b; --soft: #595959; --rule: #dcdcdc; --tile: #f4f4f2;
  --lead: #a84700; --alarm: #b3261e; --heat: 0, 114, 178;
  --c0: #c25700; --c1: #666; --c2: #0072b2; --c3: #00795a; --c4: #a3437f; --c5: #2b7fb8; --c6: #8a6d00; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --text: #e8e6e3; --soft: #a9a7a3; --rule: #3a3d42;
  --tile: #212429; --lead: #ff9d57; --alarm: #ff8a80; --heat: 86, 180, 233;
  --c0: #ff9d57; --c1: #b5b3af; --c2: #56b4e9; --c3: #2fc79a; --c4: #e79bc6; --c5: #8ecdf2; --c6: #f0e442; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper); max-width: 50rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; }
.lead { font-size: 1.15rem; margin: 0 0 1rem; }
.lead b { color: var(--lead); }
.next { border-left: 4px solid var(--lead); padding: .25rem .8rem; margin: 1rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.tiles div { background: var(--tile); border-radius: .5rem; padding: .6rem .8rem; }
.tiles b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top;
  font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid var(--soft); font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
td:first-child { min-width: 6.5rem; }
.words td { overflow-wrap: break-word; }
.matrix td, .matrix th { text-align: center; border: 1px solid var(--rule); }
.matrix th:first-child { text-align: right; }
.matrix .upright { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; margin: 0 auto;
  max-height: 11rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
summary { cursor: pointer; margin: .5rem 0; }
@media (max-width: 30rem) { th, td { padding: .3rem .35rem; } .lead { font-size: 1.05rem; }
  .matrix table { font-size: .75rem; } .matrix th, .matrix td { padding: .25rem .2rem; } }
.small { color: var(--soft); font-size: .875rem; }
""".strip()


def page(outcome: Outcome) -> str:
    """The page."""
    method = KNOWN[outcome.settings["method"]].title
    first, *others = tables(outcome)
    *compared, classes = others if others else [first]
    todo = advice(outcome)
    parts = [
        f"<h1>{escape(method)} on {escape(outcome.table)}</h1>",
        f'<p class="lead"><b>{escape(_sentence(headline(outcome)))}</b></p>',
        _tiles(outcome),
        f'<p class="next"><b>What to do next.</b> {escape(todo)}</p>' if todo else "",
        "<h2>Accuracy over time</h2>",
        svg(accuracy_chart(outcome)),
        *(f"<p>{escape(note)}</p>" for note in notes(outcome) if note != todo),
        _table(first, titled=False),
        *(_table(table, titled=True) for table in compared),
        "<h2>When it changed</h2>",
        *_changed(outcome),
        "<h2>Which classes fail</h2>",
        *_failing(outcome),
        _table(classes, titled=False),
        *_budgets(outcome),
        "<h2>What the learner knew</h2>",
        svg(labels_chart(outcome)),
        svg(estimate_chart(outcome)),
        '<p class="small">The learner estimates its own accuracy from the labels it was given. The true one, which'
        " it never saw, stands beside it.</p>",
        svg(margin_chart(outcome)),
        '<p class="small">The margin says how sure the learner is, and needs no labels; a fall may show a change before'
        " labels do.</p>",
        "<h2>Columns</h2>",
        *_columns(outcome),
        "<h2>Settings</h2>",
        _grid(("setting", "value"), _settings(outcome), "words"),
        f'<p class="small">Every row is decided before its label is known, and the label is given only where it was'
        f" asked for. Written by osamd {escape(__version__)}; results.json holds the numbers.</p>",
    ]
    title = f"{method} on {outcome.table}"
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}\n{CHARTS}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def _sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def _tiles(outcome: Outcome) -> str:
    """The answers to what people ask first."""
    runs = outcome.repeats[outcome.settings["method"]]
    shown = [
        ("right", f"{100 * np.mean([one.accuracy for one in runs]):.1f} %"),
        ("labels asked for", f"{round(float(np.mean([one.asked for one in runs]))):,}"),
    ]
    alone = outcome.baselines.get("left-alone")
    if alone is not None:
        shown.insert(1, ("if the model is left alone", f"{100 * alone.accuracy:.1f} %"))
    if 1.0 in outcome.by_budget and outcome.settings["budget"] != 1.0:
        shown.append(("with every label", f"{100 * outcome.by_budget[1.0].accuracy:.1f} %"))
    return '<div class="tiles">' + "".join(f"<div><b>{value}</b>{name}</div>" for name, value in shown) + "</div>"


def _changed(outcome: Outcome) -> list[str]:
    """How often the stream changed, the largest change, and a table of all."""
    if "left-alone" not in outcome.baselines:
        return ["<p>Without a warm-up there is no model to watch for changes.</p>"]
    watched = "how sure the model left alone is, which needs no labels"
    if adwin_is_there():
        watched += ", and how often it is right, by River's ADWIN"
    if not outcome.changes:
        return [f"<p>No change was found. We watched {escape(watched)}.</p>"]
    rows = []
    for change in outcome.changes:
        place = [f"{change.round:,}", f"{outcome.warmup + change.round:,}", outcome.date(change.round)]
        rows.append([*place, *_moved(change)])
    names = ["round", "row", "date", "what changed", "before", "after"]
    if not any(row[2] for row in rows):  # the table has no dates
        names, rows = [*names[:2], *names[3:]], [[*row[:2], *row[3:]] for row in rows]
    grid = _grid(names, rows)
    if len(rows) > CHANGES_SHOWN:
        grid = f"<details><summary>All {len(rows)} changes</summary>{grid}</details>"
    said = f"{counted(len(rows), 'change')} found. {_largest(outcome)} We watched {watched}."
    return [f"<p>{escape(said)}</p>", grid]


def _moved(change: Change) -> tuple[str, str, str]:
    """What changed, and its value before and after, in words."""
    if change.found_by == ADWIN_FOUND:
        return "right decisions", f"{100 * change.before:.1f} %", f"{100 * change.after:.1f} %"
    return "mean margin", f"{change.before:.2f}", f"{change.after:.2f}"


def _largest(outcome: Outcome) -> str:
    """The largest change: of right decisions where there is one, else of the margin."""
    largest = max(outcome.changes, key=lambda one: (one.found_by == ADWIN_FOUND, abs(one.after - one.before)))
    what, before, after = _moved(largest)
    date = outcome.date(largest.round)
    when = f"row {outcome.warmup + largest.round:,}" + (f" ({date})" if date else "")
    return f"The largest is at {when}: {what} of the model left alone went from {before} to {after}."


def _failing(outcome: Outcome) -> list[str]:
    """The matrix of confusion, and the recall of the classes that are found least often over time."""
    ledger, classes = outcome.ledger, outcome.classes
    counts = np.bincount(ledger.label, minlength=len(classes))
    wrong = ledger.label != ledger.decision
    mistakes = sum(np.bincount(side[wrong], minlength=len(classes)) for side in (ledger.label, ledger.decision))
    shown = sorted(np.argsort(-np.asarray(mistakes), kind="stable")[:MATRIX_CLASSES].tolist())
    long = max(len(str(classes[c])) for c in shown) > 3
    name = '<th><div class="upright">{}</div></th>' if long else "<th>{}</th>"
    head = "".join(name.format(escape(str(classes[c]))) for c in shown)
    lines = []
    for true in shown:
        rows = ledger.decision[ledger.label == true]
        cells = []
        for decided in shown:
            share = float((rows == decided).mean()) if len(rows) else 0.0
            told = f"{int((rows == decided).sum()):,} rows of {classes[true]} decided as {classes[decided]}"
            cells.append(
                f'<td style="background:rgba(var(--heat),{0.75 * share:.2f})" title="{escape(told, quote=True)}">'
                f"{100 * share:.0f}</td>"
            )
        lines.append(f"<tr><th>{escape(str(classes[true]))}</th>{''.join(cells)}</tr>")
    matrix = f'<div class="wide matrix"><table><tr><th>true \\ decided</th>{head}</tr>{"".join(lines)}</table></div>'
    left = len(classes) - len(shown)
    more = f" The {left} classes with the fewest mistakes are not shown." if left > 0 else ""
    said = f'<p class="small">A line shows how the rows of one true class were decided, in %.{more}</p>'
    return [matrix, said, svg(recall_chart(outcome, counts))]


def _budgets(outcome: Outcome) -> list[str]:
    if len(outcome.by_budget) < 2:
        return []
    table = budgets_table(outcome)
    names = [row[0] for row in table.rows]
    return [f"<h2>{escape(table.title)}</h2>", svg(budgets_chart(outcome, names)), _grid(table.columns, table.rows)]


def _table(table: Table, titled: bool) -> str:
    title = f"<h2>{escape(table.title)}</h2>" if titled else ""
    remarks = "".join(f'<p class="small">{escape(note)}</p>' for note in table.notes)
    return title + _grid(table.columns, table.rows) + remarks


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide {kind}"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


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
    if any(column.identifies for column in outcome.columns):
        said.append("<p>A column that looks like an id is used only if it is named as one to keep.</p>")
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
