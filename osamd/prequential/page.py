"""The report as one HTML file that opens anywhere, light or dark, on a phone too: nothing is fetched."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from osamd import __version__
from osamd.paper.methods import KNOWN
from osamd.prequential.changes_found import Change
from osamd.prequential.report import budgets_table, curve_rounds, described, headline, tables
from osamd.prequential.report import sliding as _sliding
from osamd.prequential.runs import Outcome, last_rounds
from osamd.prequential.sentences import advice, changes, notes
from osamd.reporting.charts import SCRIPT, Band, Chart, Line, Mark, svg
from osamd.reporting.charts import STYLE as CHARTS
from osamd.reporting.tables import Table

CATEGORIES_SHOWN = 8
MATRIX_CLASSES = 12
"""Classes in the matrix of confusion; the commonest ones where there are more."""
FAILING = 5
"""Classes whose recall is drawn over time: those that are found least often."""

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
@media (max-width: 30rem) { th, td { padding: .3rem .35rem; } .lead { font-size: 1.05rem; } }
.small { color: var(--soft); font-size: .875rem; }
""".strip()


def page(outcome: Outcome) -> str:
    """The page."""
    method = KNOWN[outcome.settings["method"]].title
    found = changes(outcome)
    first, *others = tables(outcome)
    *compared, classes = others if others else [first]
    todo = advice(outcome)
    parts = [
        f"<h1>{escape(method)} on {escape(outcome.table)}</h1>",
        f'<p class="lead"><b>{escape(headline(outcome))}</b></p>',
        _tiles(outcome),
        f'<p class="next"><b>What to do next.</b> {escape(todo)}</p>' if todo else "",
        "<h2>Accuracy over time</h2>",
        svg(_accuracy(outcome, found)),
        *(f"<p>{escape(note)}</p>" for note in notes(outcome) if note != todo),
        _table(first, titled=False),
        *(_table(table, titled=True) for table in compared),
        "<h2>When it changed</h2>",
        *_changed(outcome, found),
        "<h2>Which classes fail</h2>",
        *_failing(outcome),
        _table(classes, titled=False),
        *_budgets(outcome),
        "<h2>What the learner knew</h2>",
        svg(_labels(outcome)),
        svg(_estimate(outcome)),
        '<p class="small">The learner estimates its own accuracy from the labels it was given. The true one, which'
        " it never saw, stands beside it.</p>",
        svg(_margin(outcome)),
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


def _accuracy(outcome: Outcome, found: Sequence[Change]) -> Chart:
    rounds, main = len(outcome.ledger), outcome.settings["method"]
    window = last_rounds(rounds)
    at = curve_rounds(rounds)
    at = at[at >= min(window, rounds)]

    def over(right: Any) -> list[float | None]:
        return [round(100 * float(v), 2) for v in _sliding(right, at, window)]

    lines = [Line(KNOWN[main].title, over(outcome.run.right), 0)]
    alone = outcome.baselines.get("left-alone")
    if alone is not None:
        lines.append(Line("the model left alone", over(alone.right), 1, "6 3"))
    if 1.0 in outcome.by_budget and outcome.settings["budget"] != 1.0:
        lines.append(Line("with every label", over(outcome.by_budget[1.0].right), 3, "2 2"))
    if outcome.without_delay is not None:
        lines.append(Line("labels at once", over(outcome.without_delay.right), 2, "4 2"))
    others = [(name, one) for name, one in outcome.runs.items() if name != main]
    for i, (name, one) in enumerate(others):
        lines.append(Line(KNOWN[name].title, over(one.right), (2, 4, 5, 6, 1, 3)[i % 6], ("", "8 3 2 3")[i // 3 % 2]))
    marks = [Mark(change.round, _told(change)) for change in found if at[0] <= change.round <= at[-1]]
    label = f"right decisions over the last {window:,} rounds, %"
    about = f"Accuracy over time of {', '.join(line.name for line in lines)}."
    return Chart(at.tolist(), lines, label, about, marks=marks, percent=True)


def _told(change: Change) -> str:
    if change.found_by == "margin":
        moved = f"{change.before:.2f} to {change.after:.2f}"
        return f"round {change.round:,}: the margin of the model left alone went from {moved}"
    shown = f"{100 * change.before:.1f} to {100 * change.after:.1f} %"
    return f"round {change.round:,}: {change.found_by} sees the model left alone go from {shown}"


def _changed(outcome: Outcome, found: Sequence[Change]) -> list[str]:
    if "left-alone" not in outcome.baselines:
        return ["<p>Without a warm-up there is no model to watch for changes.</p>"]
    watched = "how sure the model left alone is, which needs no labels"
    if "river" in sys.modules:
        watched += ", and how often it is right, by River's ADWIN"
    if not found:
        return [f"<p>No change was found. Watched: {escape(watched)}.</p>"]
    rows = []
    for change in found:
        percent = change.found_by != "margin"
        before, after = (f"{100 * v:.1f} %" if percent else f"{v:.2f}" for v in (change.before, change.after))
        what = "right decisions" if percent else "mean margin"
        rows.append([f"{change.round:,}", f"{outcome.warmup + change.round:,}", change.found_by, what, before, after])
    grid = _grid(("round", "row of the table", "found by", "what", "before", "after"), rows)
    return [f"<p>Watched: {escape(watched)}.</p>", grid]


def _failing(outcome: Outcome) -> list[str]:
    """The matrix of confusion, and the recall of the classes that are found least often over time."""
    ledger, classes = outcome.ledger, outcome.classes
    counts = np.bincount(ledger.label, minlength=len(classes))
    shown = sorted(np.argsort(-counts, kind="stable")[:MATRIX_CLASSES].tolist())
    head = "".join(f"<th>{escape(str(classes[c]))}</th>" for c in shown)
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
    more = f" The {left} rarest classes are not shown." if left > 0 else ""
    said = f'<p class="small">Of the rows of each true class (lines), the share decided as each class, in %.{more}</p>'
    return [matrix, said, svg(_recalls(outcome, counts))]


def _recalls(outcome: Outcome, counts: Any) -> Chart:
    ledger, classes = outcome.ledger, outcome.classes
    edges = np.unique(np.linspace(0, len(ledger), 13).astype(np.int64))
    overall = [
        (float((ledger.decision[ledger.label == c] == c).mean()), c) for c in range(len(classes)) if counts[c] > 0
    ]
    lines = []
    for k, (_, c) in enumerate(sorted(overall)[:FAILING]):
        values: list[float | None] = []
        for a, b in pairwise(edges.tolist()):
            own = ledger.label[a:b] == c
            values.append(100 * float((ledger.decision[a:b][own] == c).mean()) if own.any() else None)
        lines.append(Line(str(classes[c]), values, (0, 2, 3, 4, 6)[k]))
    centres = ((edges[:-1] + edges[1:]) / 2).round().tolist()
    label = "rows of a class that were decided rightly, %" + (", the worst classes" if len(classes) > FAILING else "")
    return Chart(centres, lines, label, "Recall of classes over time.", percent=True, from_zero=True)


def _budgets(outcome: Outcome) -> list[str]:
    if len(outcome.by_budget) < 2:
        return []
    rates = list(outcome.by_budget)
    places = [float(k) for k in range(len(rates))]
    values: list[float | None] = [100 * outcome.by_budget[rate].accuracy for rate in rates]
    alone = outcome.baselines.get("left-alone")
    lines = [Line("default learner", values, 0)]
    if alone is not None:
        lines.append(Line("the model left alone", [100 * alone.accuracy] * len(rates), 1, "6 3"))
    table = budgets_table(outcome)
    names = [row[0] for row in table.rows]
    about = f"Accuracy at budgets of {', '.join(names)}."
    chart = Chart(places, lines, "accuracy, %", about, "budget", x_names=names, percent=True)
    return [f"<h2>{escape(table.title)}</h2>", svg(chart), _grid(table.columns, table.rows)]


def _labels(outcome: Outcome) -> Chart:
    """Labels asked for, and those that had come, against what the budget allows."""
    rounds, budget = len(outcome.ledger), outcome.settings["budget"]
    at = np.concatenate([[0], curve_rounds(rounds)])
    lines = [Line("asked for", np.searchsorted(np.flatnonzero(outcome.ledger.asked), at).tolist(), 0)]
    if outcome.delay is not None:
        lines.append(Line("had come", np.searchsorted(np.sort(outcome.came), at).tolist(), 2, "6 3"))
    if budget is not None:
        lines.append(Line("the budget", (budget * at).tolist(), 1, "2 3"))
    return Chart(at.tolist(), lines, "labels", "Labels asked for over time.", from_zero=True)


def _estimate(outcome: Outcome) -> Chart:
    """The learner's own estimate of its accuracy with its interval, beside the truth over the same rounds."""
    at = np.array([check.round for check in outcome.checks], dtype=np.int64)
    window = outcome.settings["window"]

    def column(name: str) -> list[float | None]:
        values = [getattr(check, name) for check in outcome.checks]
        return [100 * min(max(v, 0.0), 1.0) if np.isfinite(v) else None for v in values]

    known = [v is not None for v in column("value")]
    low, high = ([v if k else None for v, k in zip(column(side), known, strict=True)] for side in ("low", "high"))
    truth: list[float | None] = [100 * float(v) for v in _sliding(outcome.run.right, at, window)]
    lines = [Line("estimated", column("value"), 2, "6 3"), Line("true", truth, 0)]
    span = f"the last {window:,} rounds" if len(outcome.ledger) > window else "all rounds so far"
    return Chart(
        at.tolist() or [0],
        lines if len(at) else [Line("true", [None], 0)],
        f"right decisions over {span}, %",
        "The accuracy that the learner estimates, with its interval, and the true one.",
        bands=[Band("90 % interval", low, high, 2)] if len(at) else (),
        percent=True,
    )


def _margin(outcome: Outcome) -> Chart:
    """Margins over time: the median and the middle four fifths."""
    margins = outcome.ledger.margin
    edges = np.unique(np.linspace(0, len(margins), min(100, max(2, len(margins) // 50)) + 1).astype(np.int64))
    parts = [np.quantile(margins[a:b], (0.1, 0.5, 0.9)) for a, b in pairwise(edges.tolist())]
    low, middle, high = np.array(parts).T
    centre = ((edges[:-1] + edges[1:]) / 2).tolist()
    return Chart(
        centre,
        [Line("median", middle.tolist(), 2)],
        "margin",
        "The margins over time.",
        bands=[Band("10 % to 90 % of the rounds", low.tolist(), high.tolist(), 2)],
        from_zero=True,
    )


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
