"""What the benchmark prints: a table a stream, the targets, and the figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.extras import exponent
from benchmarks.figure import speed_figure
from benchmarks.reference import WHO as C_REFERENCE
from benchmarks.run import DEFAULT, LEARNER, OURS, RIVER_FOREST
from osamd.reporting.tables import Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTROPY = "River EntropySampler(regression)"
PARSED = "Vowpal Wabbit, parsed examples"
COLUMNS = ("who", "mode", "samples/s", "we are faster by", "accuracy %", "labels %", "samples", "ours on them %")


class Target(NamedTuple):
    """What the run must show, what it showed, and whether that is enough."""

    target: str
    measured: str
    met: bool


def report(content: Mapping[str, Any]) -> Report:
    """The tables of a run, its JSON with the targets judged, and its figure."""
    judged = list(targets(content))
    tables = [_stream_table(content, stream) for stream in dict.fromkeys(row["stream"] for row in content["rows"])]
    rows = [(target, measured, "yes" if met else "NO") for target, measured, met in judged]
    missing = [f"Missing: {who} ({why})." for who, why in content["missing"].items()]
    tables.append(Table("Targets", ("target", "measured", "met?"), rows, missing))
    return Report(tables, {**content, "targets": [target._asdict() for target in judged]}, speed_figure(content))


def _stream_table(content: Mapping[str, Any], stream: str) -> Table:
    rows = [row for row in content["rows"] if row["stream"] == stream]
    return Table(f"{stream}, medians of {content['repeats']} repeats, one thread", COLUMNS, [_cells(r) for r in rows])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    ours = row["who"] == OURS
    return (
        row["who"],
        {"stream": "whole stream", "one": "one sample"}[row["mode"]],
        f"{row['samples_per_s']:,.0f}",
        "" if ours or row["ratio_to_us"] is None else times(row["ratio_to_us"]),
        f"{100 * row['accuracy']:.1f}",
        f"{100 * row['labels']:.1f}",
        f"{row['samples']:,}",
        "" if ours else f"{100 * row['our_accuracy']:.1f} with {100 * row['our_labels']:.1f}",
    )


def times(ratio: float) -> str:
    """Three figures, written out.

    >>> times(0.4361), times(38.86), times(24423.0)
    ('0.436 x', '38.9 x', '24,400 x')
    """
    return f"{float(f'{ratio:.3g}'):,g} x"


def targets(content: Mapping[str, Any]) -> Iterator[Target]:
    """Every target that the content can judge."""
    ratio = {(row["who"], row["stream"], row["mode"]): row["ratio_to_us"] for row in content["rows"]}
    wanted = [
        (ENTROPY, "stream", {"d=3": 100.0, "d=54": 40.0, "d=784, 10 classes": 100.0}),
        (PARSED, "stream", {"d=3": 30.0, "d=54": 30.0}),
        (ENTROPY, "one", {"d=3": 3.0, "d=54": 3.0, "d=784, 10 classes": 20.0}),
        (C_REFERENCE, "stream", {"d=3": 0.7, "d=54": 0.7}),
    ]
    for who, mode, least in wanted:
        for stream, bound in least.items():
            got = ratio.get((who, stream, mode))
            if got is not None:
                how = "whole stream" if mode == "stream" else "one sample at a time"
                yield Target(f"{how}, {stream}: at least {bound:g} x {who}", times(got), got >= bound)
    speed = {(row["who"], row["stream"], row["mode"]): row["samples_per_s"] for row in content["rows"]}
    held = (
        (DEFAULT, ENTROPY, "d=54", 0.4),
        (DEFAULT, RIVER_FOREST, "d=54", 9.0),
        (DEFAULT, ENTROPY, "d=784, 10 classes", 8.0),
        (LEARNER, ENTROPY, "d=54", 2.0),
    )
    for who, peer, stream, factor in held:
        ours, theirs = (speed.get((name, stream, "one")) for name in (who, peer))
        if ours and theirs:
            reached = ours / theirs
            yield Target(f"{who}, {stream}: at least {factor:g} x {peer}", times(reached), reached >= factor)
    yield from _alone(content)


def _alone(content: Mapping[str, Any]) -> Iterator[Target]:
    start = {name: taken["seconds"] for name, taken in content.get("start", {}).items()}
    if "import sklearn" in start:
        ours, theirs = start["import osamd"], start["import sklearn"]
        yield Target("import osamd no slower than import sklearn", f"{ours:.2f} s and {theirs:.2f} s", ours <= theirs)
    if "osamd --help" in start:
        yield Target("osamd --help below 0.3 s", f"{start['osamd --help']:.2f} s", start["osamd --help"] < 0.3)
    for along, points in content.get("scaling", {}).items():
        power = exponent(points, along)
        yield Target(f"cost linear in {along}: exponent at most 1.15", f"{power:.2f}", power <= 1.15)
    if "memory" in content:
        short, long = content["memory"]
        yield Target(
            f"memory flat from {short['rounds']:,} to {long['rounds']:,} rounds: within 5 %",
            f"{short['peak_mib']:.0f} MiB and {long['peak_mib']:.0f} MiB",
            long["peak_mib"] <= 1.05 * short["peak_mib"],
        )
