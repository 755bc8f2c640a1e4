"""Accuracy against labels: every method at several budgets, on one of our streams or on a user's table.

    curves = label_curve("rotating-gaussian", budgets=["1%", "5%", "20%"])
    print(curves.answer)

The level to reach is full supervision: OMD (all), which gets every label.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError, nearest, require_whole
from osamd.evaluation.intervals import Mean, mean_90
from osamd.evaluation.many import Runner, run_many
from osamd.paper.methods import KNOWN, PRESET
from osamd.prequential.label_runs import STREAMS, LabelRun, digest_of, hold, identity, played
from osamd.prequential.peers import PEERS, RunScore
from osamd.prequential.runs import share

BUDGETS = ("1%", "2%", "5%", "10%", "20%")
AS_IN = "as in budgets=['1%', '5%', '20%']"
SEEDS = 5
ROUNDS = 2000
WARMUP = 200
FULL = "omd-all"
"""The method that gets every label: the level of full supervision."""

SLACK = 0.01
"""How far below full supervision is close enough: one point."""

SLOW_ROUNDS = 6000
"""The rounds of all seeds together that a slow peer plays per budget: 3 seeds of 2000 rounds, but at least one seed."""


class CurvePoint(NamedTuple):
    """A method at a budget, over its seeds."""

    budget: float | None
    labels: Mean
    accuracy: Mean


class Curve(NamedTuple):
    """A method at all budgets, the smallest first."""

    name: str
    title: str
    seeds: int
    points: list[CurvePoint]
    version: str | None = None
    """The version of the project that the method comes from, if that is not ours."""


class LabelsNeeded(NamedTuple):
    """The share of the labels that reaches the target; None if no budget does."""

    labels: float | None
    smallest: bool
    """Whether the smallest budget reaches the target, so that fewer labels might do."""
    falls: bool
    """Whether a larger budget falls below the target again."""


class Curves(NamedTuple):
    """The result of `label_curve`."""

    stream: str
    rounds: int
    warmup: int
    seeds: int
    settings: str
    full: CurvePoint
    curves: list[Curve]
    left_out: dict[str, str]
    """The peers that are not installed: package by name of the method."""

    @property
    def chosen(self) -> Curve:
        """The curve that the answer is about: the preset's, else OSAMD's, else the first."""
        order = {PRESET.name: 0, "osamd": 1}
        return min(self.curves, key=lambda curve: order.get(curve.name, 2))

    @property
    def target(self) -> float:
        """The accuracy to reach."""
        return self.full.accuracy.mean - SLACK

    @property
    def reached(self) -> LabelsNeeded:
        """What the chosen curve needs."""
        points = [(point.labels.mean, point.accuracy.mean) for point in self.chosen.points]
        return labels_for(points, self.target)

    @property
    def answer(self) -> str:
        """How many labels are needed, in a sentence."""
        points = [(point.labels.mean, point.accuracy.mean) for point in self.chosen.points]
        return sentence(self.chosen.title, points, self.full.accuracy.mean)


def labels_for(points: Sequence[tuple[float, float]], target: float) -> LabelsNeeded:
    """The share of labels at which the accuracy first reaches the target; points are (labels, accuracy).

    Between two budgets the accuracy is a straight line over the logarithm of the labels.

    >>> labels_for([(0.01, 0.90), (0.04, 0.94), (0.16, 0.98)], target=0.92)
    LabelsNeeded(labels=0.02, smallest=False, falls=False)
    >>> labels_for([(0.01, 0.90), (0.04, 0.94)], target=0.95)
    LabelsNeeded(labels=None, smallest=False, falls=False)
    """
    ordered = sorted(points)
    above = [accuracy >= target for _, accuracy in ordered]
    if not any(above):
        return LabelsNeeded(None, False, False)
    first = above.index(True)
    falls = not all(above[first:])
    if first == 0:
        return LabelsNeeded(ordered[0][0], True, falls)
    (few, low), (many, high) = ordered[first - 1], ordered[first]
    if few <= 0.0:
        return LabelsNeeded(many, False, falls)
    part = (target - low) / (high - low)
    return LabelsNeeded(float(f"{few * (many / few) ** part:.12g}"), False, falls)


def sentence(title: str, points: Sequence[tuple[float, float]], full: float) -> str:
    """The answer in words, with what was measured on both sides of it.

    >>> sentence("OSAMD preset", [(0.01, 0.90), (0.04, 0.94)], full=0.93)
    'About 2 % of the labels reach the accuracy of full supervision minus one point (92.0 %) with OSAMD preset.'
    """
    found = labels_for(points, full - SLACK)
    level = f"the accuracy of full supervision minus one point ({100 * (full - SLACK):.1f} %)"
    if found.labels is None:
        labels, best = max(points, key=lambda point: (point[1], -point[0]))
        most = max(labels for labels, _ in points)
        return (
            f"No budget that was tried, up to {100 * most:.2g} % of the labels, reaches {level} with {title}: its best"
            f" is {100 * best:.1f} %, with {100 * labels:.2g} % of the labels."
        )
    again = " A larger budget falls below it again." if found.falls else ""
    share = f"{100 * found.labels:.2g} % of the labels"
    if found.smallest:
        return f"{share}, the fewest that were tried, already reach {level} with {title}; fewer may do.{again}"
    return f"About {share} reach {level} with {title}.{again}"


def label_curve(
    where: Any,
    label: str | None = None,
    *,
    budgets: Sequence[float | str] = BUDGETS,
    methods: Sequence[str] | None = None,
    peers: bool = True,
    seeds: int = SEEDS,
    rounds: int | None = None,
    warmup: int = WARMUP,
    classes: Sequence[object] | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    format: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    workers: int | None = None,
    engine: str = "local",
    kept: Path | None = None,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> Curves:
    """Play every method at every budget, and the peers that are installed, from the same source on the same rows.

    `where` is the name of a stream of `STREAMS`, or a table as `osamd.run` takes it, with its `label`. A seed draws the
    queries, and for a stream also the stream. `rounds` is the length of the stream, 2000 by default, or the number of
    rows of a table after the warm-up, all by default. All methods start from a model that is fitted to `warmup`
    labelled samples. On "rotating-gaussian" the paper's methods have the paper's settings; else those of `osamd run`.
    `engine`, `workers` and `kept` are those of `osamd.evaluation.many.Runner`. `progress` gets the number of runs, and
    returns a function to call after each. Rows are held in memory.
    """
    shares = shares_of(budgets)
    ours = chosen(methods)
    seeds = require_whole("label_curve", "seeds", seeds)
    warmup = require_whole("label_curve", "warmup", warmup, 0)
    named = isinstance(where, str) and where in STREAMS
    if rounds is not None or named:
        rounds = require_whole("label_curve", "rounds", ROUNDS if rounds is None else rounds)
    with tempfile.TemporaryDirectory(prefix="osamd-labels-") as folder:
        place = where if named else rows_file(folder, engine, kept)
        options = {"classes": classes, "drop": drop, "categorical": categorical, "keep": keep, "format": format}
        if named:
            only_point = {"decimal": decimal != ".", "encoding": encoding}
            require_named(where, warmup, {"label": label is not None} | options | only_point)
            title, many = where, rounds or ROUNDS
        else:
            title, many = hold(
                where, label, place, warmup, rounds, options | {"decimal": decimal, "encoding": encoding}
            )
        if shares[0] * many < 1.0:
            raise InputError(
                f"`label_curve(budgets=['{100 * shares[0]:g}%'])`: in {many} rounds that is less than one label; give"
                f" more rounds, or a share of at least {100 / many:.2g}%."
            )
        wanted = {name: peer for name, peer in PEERS.items() if peers and not (named and peer.tables_only)}
        there = [name for name, peer in wanted.items() if peer.installed]
        repeats = dict.fromkeys(ours, seeds) | {
            name: min(seeds, max(1, SLOW_ROUNDS // many)) if PEERS[name].slow else seeds for name in there
        }
        # Slow ones first, so that no core is idle at the end.
        playing = [(FULL, None, seeds if named else 1), *((n, b, repeats[n]) for n in (*there, *ours) for b in shares)]
        tasks = [
            LabelRun(place, many, warmup, name, rate, seed) for name, rate, some in playing for seed in range(some)
        ]
        one_done = None if progress is None else progress(len(tasks))
        runner, key = Runner(engine, workers, kept), partial(identity, "" if named else digest_of(place))
        scores = run_many(played, tasks, runner, key=key, progress=one_done)
    found = by_budget(tasks, scores)
    curves = [
        curve(name, repeats[name], [point(budget, found[name, budget]) for budget in shares])
        for name in (*ours, *there)
    ]
    missing = {name: peer.package for name, peer in wanted.items() if name not in there}
    settings = "the paper's settings" if title == "rotating-gaussian" else "the defaults of osamd run"
    return Curves(title, many, warmup, seeds, settings, point(None, found[FULL, None]), curves, missing)


def rows_file(scratch: str, engine: str, kept: Path | None) -> str:
    """The file that holds a table's rows: beside the kept runs where other machines may play them."""
    folder = Path(scratch) if kept is None or engine == "local" else kept
    folder.mkdir(parents=True, exist_ok=True)
    return str((folder / "rows.npz").resolve())


def by_budget(tasks: Sequence[LabelRun], scores: Sequence[RunScore]) -> dict[tuple[str, float | None], list[RunScore]]:
    """The scores of every method at every budget, in the order of the seeds."""
    found: dict[tuple[str, float | None], list[RunScore]] = {}
    for task, score in zip(tasks, scores, strict=True):
        found.setdefault((task.name, task.budget), []).append(score)
    return found


def require_named(name: str, warmup: int, options: Mapping[str, Any]) -> None:
    """Refuse what a named stream cannot have: options of a table, and a warm-up too short to fit a model to."""
    if any(options.values()):
        given = ", ".join(f"{option}=..." for option in options)
        raise InputError(f"`label_curve({name!r})`: a stream by name has no columns; leave out {given}.")
    if warmup < 20:  # a fit needs both classes
        raise InputError(f"`label_curve(warmup={warmup})`: a stream by name starts from at least 20 labelled samples.")


def curve(name: str, seeds: int, points: list[CurvePoint]) -> Curve:
    """The curve of one of our methods or of a peer."""
    if name in PEERS:
        return Curve(name, PEERS[name].title, seeds, points, PEERS[name].version)
    return Curve(name, KNOWN[name].title, seeds, points)


def point(budget: float | None, scores: Sequence[RunScore]) -> CurvePoint:
    return CurvePoint(budget, mean_90([run.labels for run in scores]), mean_90([run.accuracy for run in scores]))


def shares_of(budgets: Sequence[float | str]) -> list[float]:
    """The budgets as shares of the rounds, without duplicates, smallest first.

    >>> shares_of(["5%", "1%", 0.05])
    [0.01, 0.05]
    """
    try:
        found = sorted({share(budget) for budget in budgets})
    except InputError as error:
        raise InputError(
            f"`label_curve(budgets={list(budgets)})`: give shares of the rounds, above 0% and at most 100%, {AS_IN}."
        ) from error
    if not found:
        raise InputError(f"`label_curve(budgets=[])`: name at least one share of the rounds, {AS_IN}.")
    return found


def chosen(methods: Sequence[str] | None) -> list[str]:
    """The methods that have a curve, in order: the preset first."""
    order = [PRESET.name, *(name for name in KNOWN if name not in (PRESET.name, FULL))]
    if methods is None:
        return order
    for name in methods:
        if name not in KNOWN:
            raise InputError(f"`label_curve(methods=[{name!r}])`: no such method. {nearest(name, KNOWN)}")
    found = [name for name in order if name in methods]
    if not found:
        raise InputError(
            f"`label_curve(methods={list(methods)})`: name at least one method that keeps a budget: {', '.join(order)}."
        )
    return found
