"""The numbers of docs/benchmark.md, written anew from a bench.json: `python -m benchmarks.page BENCH_JSON`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import report

PAGE = Path(__file__).parents[1] / "docs" / "benchmark.md"
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


def numbers(content: Mapping[str, Any]) -> str:
    """The machine, the tables, the targets, and what was measured of us alone, as Markdown."""
    machine = content["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    parts = [
        f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}"
        f" (load before the run: {machine['load_before']:.1f}). Libraries: {libraries}.",
    ]
    for table in report(content).tables:
        parts += [f"### {table.title}", _table(table.columns, table.rows), *table.notes]
    for along, points in content.get("scaling", {}).items():
        cells = [[f"{point[along]:,}", f"{point['ns_per_sample']:,.0f}"] for point in points]
        parts += [f"### Our cost against {along}", _table((along, "ns a sample"), cells)]
    if "start" in content:
        cells = [
            [f"`{name}`", f"{taken['seconds']:.3f}", f"{taken['wall_seconds']:.3f}"]
            for name, taken in content["start"].items()
        ]
        parts += ["### Time to start, warm", _table(("command", "processor s", "wall s"), cells)]
    return "\n\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows))


def rewrite(page: str, content: Mapping[str, Any]) -> str:
    """The page with what stands between its two marks replaced."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{numbers(content)}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(rewrite(PAGE.read_text(), json.loads(Path(sys.argv[1]).read_text())))
