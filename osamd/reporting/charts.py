"""Charts for a page: SVG that follows the page's colours, light or dark, with values under the pointer.

A chart is a value; `svg` draws it. `STYLE` and `SCRIPT` go into the page once. Nothing is fetched, and without scripts
the charts are still there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 50
COLOURS = 7
"""Colours of lines, those of Okabe and Ito, which colour-blind people can tell apart."""


FEWEST_POINTS = 5.0
"""The least range of an axis in percent."""


class Line(NamedTuple):
    """A line; where a value is None it is broken. `colour` is a number below COLOURS."""

    name: str
    values: Sequence[float | None]
    colour: int = 0
    dash: str = ""
    """As SVG has it: "6 3" is six on, three off."""


class Band(NamedTuple):
    """The area between two lines."""

    name: str
    low: Sequence[float | None]
    high: Sequence[float | None]
    colour: int = 0


class Mark(NamedTuple):
    """Something that happened at x."""

    x: float
    text: str


class Chart(NamedTuple):
    """Lines over common x values."""

    x: Sequence[float]
    lines: Sequence[Line]
    label: str
    """What the values are, with their unit."""
    about: str
    """What is shown, for those who cannot see it."""
    x_label: str = "round"
    x_names: Sequence[str] = ()
    """Names that stand in for the x values, one for each."""
    bands: Sequence[Band] = ()
    marks: Sequence[Mark] = ()
    percent: bool = False
    from_zero: bool = False


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between the two.

    >>> ticks(0.0, 0.9)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    >>> ticks(61.0, 98.0)
    [70.0, 80.0, 90.0]
    """
    span = high - low if high > low else 1.0
    size = 10.0 ** math.floor(math.log10(span / most))
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * k, 10) for k in range(first, last + 1)]


def svg(chart: Chart) -> str:
    """The chart, with its legend below."""
    low, high = _limits(chart)
    first, last = float(chart.x[0]), float(chart.x[-1])

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / ((last - first) or 1.0)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)

    def path(values: Sequence[float | None]) -> str:
        steps, pen = [], "M"
        for x, y in zip(chart.x, values, strict=True):
            if y is None:
                pen = "M"
                continue
            steps.append(f"{pen}{across(x):.1f},{up(y):.1f}")
            pen = "L"
        return "".join(steps)

    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:,g}</text>'
        for y in ticks(low, high)
    ]
    named = zip(chart.x, chart.x_names, strict=True) if chart.x_names else ((x, f"{x:,g}") for x in ticks(first, last))
    for x, name in named:
        anchor = "start" if chart.x_names and x == first else "end" if chart.x_names and x == last else "middle"
        at = f'x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="{anchor}"'
        parts.append(f"<text {at}>{escape(name)}</text>")
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(chart.x_label)}</text>')
    for band in chart.bands:
        parts.append(f'<path class="band c{band.colour}" d="{_area(chart.x, band, across, up)}"/>')
    for mark in chart.marks:
        at = f'x1="{across(mark.x):.1f}" x2="{across(mark.x):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
        parts.append(f'<line class="mark" {at}><title>{escape(mark.text)}</title></line>')
    for i, line in enumerate(chart.lines):
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        parts.append(f'<path class="line c{line.colour}" data-line="{i}"{dash} d="{path(line.values)}"/>')
    parts.append(f'<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{HEIGHT - BOTTOM}" visibility="hidden"/>')
    shown = escape(json.dumps(_data(chart), separators=(",", ":")), quote=True)
    drawing = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.about, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )
    what = f'<div class="what">{escape(chart.label)}</div>'
    return (
        f'<div class="chart" data-chart="{shown}">{what}{drawing}{_legend(chart)}<div class="tip" hidden></div></div>'
    )


def _limits(chart: Chart) -> tuple[float, float]:
    values = [v for line in chart.lines for v in line.values if v is not None]
    values += [v for band in chart.bands for side in (band.low, band.high) for v in side if v is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = 0.05 * (high - low) or 1.0
    if chart.percent:  # so that a difference of a few tenths does not look like a large one
        room = max(room, (FEWEST_POINTS - (high - low)) / 2)
    low, high = low - room, high + room
    if chart.percent:
        low, high = max(0.0, low), min(100.5, high)
    if chart.from_zero:
        low = 0.0
    return low, max(high, low + 1e-9)


def _area(x: Sequence[float], band: Band, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    ends = [(a, low, high) for a, low, high in zip(x, band.low, band.high, strict=True) if low is not None is not high]
    if not ends:
        return ""
    there = "L".join(f"{across(a):.1f},{up(high):.1f}" for a, _, high in ends)
    back = "L".join(f"{across(a):.1f},{up(low):.1f}" for a, low, _ in reversed(ends))
    return f"M{there}L{back}Z"


def _data(chart: Chart) -> dict[str, object]:
    """What the script needs to show values under the pointer."""
    return {
        "x": [round(float(x), 6) for x in chart.x],
        "name": chart.x_label,
        "names": list(chart.x_names),
        "lines": [
            [line.name, [None if v is None else round(float(v), 3) for v in line.values]] for line in chart.lines
        ],
        "left": LEFT / WIDTH,
        "right": 1.0 - RIGHT / WIDTH,
        "unit": " %" if chart.percent else "",
    }


def _legend(chart: Chart) -> str:
    names = [
        f'<button type="button" data-line="{i}" aria-pressed="true">'
        f'<svg class="c{line.colour}" viewBox="0 0 24 8"><path class="line" d="M0,4L24,4"'
        f"{f' stroke-dasharray={chr(34)}{line.dash}{chr(34)}' if line.dash else ''}/></svg>{escape(line.name)}</button>"
        for i, line in enumerate(chart.lines)
    ]
    names += [f'<span><i class="c{band.colour}"></i>{escape(band.name)}</span>' for band in chart.bands]
    if chart.marks:
        names.append('<span class="drift"><i></i>a change was found</span>')
    return f'<div class="legend">{"".join(names)}</div>' if len(names) > 1 else ""


STYLE = """
.chart { position: relative; margin: .5rem 0 1.25rem; }
.chart svg { width: 100%; height: auto; display: block; touch-action: pan-y; overflow: visible; }
.chart text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
@media (max-width: 30rem) { .chart text { font-size: 21px; } }
.chart .what { color: var(--soft); font-size: .85rem; margin-bottom: .15rem; }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.band { fill: currentColor; opacity: .18; stroke: none; }
.mark { stroke: var(--alarm); stroke-width: 1.5; stroke-dasharray: 2 3; vector-effect: non-scaling-stroke; }
.cross { stroke: var(--soft); stroke-width: 1; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem .9rem; font-size: .85rem; margin-top: .3rem; }
.legend button, .legend span { all: unset; display: inline-flex; align-items: center; gap: .4rem; }
.legend button { cursor: pointer; min-height: 1.75rem; }
.legend button:focus-visible { outline: 2px solid var(--text); outline-offset: 2px; }
.legend button[aria-pressed=false] { opacity: .4; text-decoration: line-through; }
.legend svg { width: 24px; height: 8px; }
.legend i { display: inline-block; width: 18px; height: 10px; background: currentColor; opacity: .25; }
.legend .drift i { width: 0; height: 14px; background: none; border-left: 2px dashed var(--alarm); opacity: 1; }
.tip { position: absolute; top: 1.6rem; pointer-events: none; background: var(--paper); color: var(--text);
  border: 1px solid var(--rule); border-radius: .4rem; padding: .35rem .55rem; font-size: .8rem; white-space: nowrap;
  box-shadow: 0 2px 8px #0003; font-variant-numeric: tabular-nums; z-index: 2; }
""".strip()

SCRIPT = """
for (const chart of document.querySelectorAll('.chart')) {
  const data = JSON.parse(chart.dataset.chart), svg = chart.querySelector(':scope > svg'), off = new Set();
  const tip = chart.querySelector('.tip'), cross = svg.querySelector('.cross');
  const hide = () => { tip.hidden = true; cross.setAttribute('visibility', 'hidden'); };
  const number = value => value.toLocaleString('en', {maximumFractionDigits: 2});
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width;
    const x = data.x, share = (at - data.left) / (data.right - data.left);
    if (share < -.02 || share > 1.02) return hide();
    const wanted = x[0] + share * (x[x.length - 1] - x[0]);
    let i = 0;
    for (let k = 1; k < x.length; k++) if (Math.abs(x[k] - wanted) < Math.abs(x[i] - wanted)) i = k;
    const place = data.left + (data.right - data.left) * (x[i] - x[0]) / ((x[x.length - 1] - x[0]) || 1);
    tip.replaceChildren();
    const line = text => { const row = document.createElement('div'); row.textContent = text; tip.append(row); };
    line(data.name + ' ' + (data.names[i] || number(x[i])));
    data.lines.forEach(([name, values], k) => {
      if (!off.has(k) && values[i] !== null) line(name + ': ' + number(values[i]) + data.unit);
    });
    tip.hidden = false;
    const px = place * box.width;
    tip.style.left = px > box.width / 2 ? '' : px + 10 + 'px';
    tip.style.right = px > box.width / 2 ? box.width - px + 10 + 'px' : '';
    const where = place * svg.viewBox.baseVal.width;
    cross.setAttribute('x1', where); cross.setAttribute('x2', where); cross.setAttribute('visibility', 'visible');
  });
  svg.addEventListener('pointerleave', hide);
  for (const button of chart.querySelectorAll('.legend button')) button.addEventListener('click', () => {
    const k = Number(button.dataset.line), shown = off.has(k);
    shown ? off.delete(k) : off.add(k);
    button.setAttribute('aria-pressed', String(shown));
    svg.querySelector(`[data-line="${k}"]`).style.display = shown ? '' : 'none';
  });
}
""".strip()
