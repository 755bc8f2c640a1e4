"""What `osamd run` does: play the table, then print the tables and write all files at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from osamd.cli.column_remarks import column_remarks
from osamd.compiled.lowering import compiles_anew
from osamd.errors import InputError, nearest
from osamd.files import Files, together
from osamd.paper.methods import KNOWN
from osamd.prequential.delays import delay_named
from osamd.prequential.outcomes import Outcome
from osamd.prequential.page import page
from osamd.prequential.report import tables
from osamd.prequential.results import content
from osamd.prequential.runs import run, share
from osamd.prequential.sentences import notes
from osamd.reporting.terminal import show, stages

FILES = ("results.json", "report.html")


def run_table(table: str, label: str | None, out: Path | None, **settings: Any) -> None:
    """Refuse what can be refused before the work, play, write and print."""
    if settings["method"] not in (None, *KNOWN):
        raise InputError(f"`--method {settings['method']}`: no such method. {nearest(settings['method'], KNOWN)}")
    if settings["delay"] is not None:
        delay_named(settings["delay"])
    if settings["budget"] is not None:
        share(settings["budget"])
    folder = out or Path("results") / (Path(table).name.split(".")[0] if table != "-" else "run")
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path())
    if not there.is_dir():
        raise InputError(f"`--out {folder}`: {there} is a file; name a folder.")
    if compiles_anew():
        print("osamd: compiling for the first time on this machine, which takes about ten seconds.", file=sys.stderr)
    outcome: Outcome | None = None
    try:
        with together(folder, FILES) as files:
            with stages() as told:
                outcome = run(table, label, start=told.start, done=told.done, **settings)
            _write(files, outcome)
    finally:
        # After the files, which a reader of ours that stops early (| head) does not take away; and without them too.
        if outcome is not None:
            first, *others = tables(outcome)
            for shown in (
                first._replace(notes=[*first.notes, *notes(outcome), *column_remarks(outcome.columns)]),
                *others,
            ):
                show(shown)
    print("Wrote:")
    for path in files.paths:
        print(f"  {path}")


def _write(files: Files, outcome: Outcome) -> None:
    files.write_json("results.json", content(outcome))
    text = page(outcome)
    files.write("report.html", lambda path: path.write_text(text, encoding="utf-8"))
