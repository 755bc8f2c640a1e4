"""The tables of docs/adaptation.md, from docs/results/adaptation-*.json: python docs/hooks/adaptation.py"""

from __future__ import annotations

import json
from pathlib import Path

from osamd.reproduce.adaptation import report
from osamd.reproduce.adaptation.benchmarks import BENCHMARKS

DOCS = Path(__file__).parent.parent
PAGE = DOCS / "adaptation.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def tables() -> str:
    """The tables of all streams that have results, in the order of the command."""
    parts = []
    for name in BENCHMARKS:
        path = DOCS / "results" / f"adaptation-{name}.json"
        if path.exists():
            content = json.loads(path.read_text())
            parts += [f"### {content['title']}\n", report.markdown(content) + "\n"]
    return "\n".join(parts)


def filled(page: str) -> str:
    """The page with these tables between its marks."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + tables() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
