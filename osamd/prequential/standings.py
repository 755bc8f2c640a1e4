"""How our learner compares with the peers: by stream, and in one row for every group of streams and budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from osamd.evaluation.intervals import mean_90
from osamd.prequential.peers import RunScore
from osamd.prequential.trials import OURS, RIVALS
from osamd.reporting.tables import Table, in_words

POINT = 0.01
"""One point of accuracy: a difference of at most this counts as level with the best peer."""

BySeed = Mapping[int, RunScore]
ByLearner = Mapping[str, BySeed]
ByStream = Mapping[str, ByLearner]
"""Scores by stream, learner and seed."""

MEASURES: dict[str, Callable[[RunScore], float]] = {
    "accuracy": lambda score: score.accuracy,
    "balanced accuracy": lambda score: score.balanced_accuracy,
}


class Standing(NamedTuple):
    """Our learner against the peers on some streams, at one budget and by one measure; values are shares or counts."""

    streams: int
    best_peer: str
    """The single peer that is best on average over the streams."""
    ours: float
    peer: float
    """Ours minus the difference, so that a peer with fewer seeds is not judged by which seeds those were."""
    difference: float
    """The mean over the streams of ours minus that peer's, on the seeds that both played."""
    level: int
    """The number of streams on which ours is at most a point behind the stream's best peer in hindsight."""
    ahead: int
    difference_looking_back: float


def gaps(learners: ByLearner, measure: str) -> dict[str, float]:
    """For each peer, the mean of ours minus the peer's, over the seeds that both played."""
    value, ours = MEASURES[measure], learners[OURS]
    return {
        name: float(np.mean([value(ours[seed]) - value(score) for seed, score in scores.items()]))
        for name, scores in learners.items()
        if name != OURS
    }


def standing(found: ByStream, measure: str) -> Standing:
    by_stream = [gaps(learners, measure) for learners in found.values()]
    means = {name: float(np.mean([by_peer[name] for by_peer in by_stream])) for name in by_stream[0]}
    best = min(distinct(found), key=lambda name: means[name])
    behind = [min(by_peer.values()) for by_peer in by_stream]
    ours = float(np.mean([mean(learners[OURS], measure) for learners in found.values()]))
    return Standing(
        len(behind),
        RIVALS[best].title,
        ours,
        ours - means[best],
        means[best],
        sum(gap >= -POINT for gap in behind),
        sum(gap > 0.0 for gap in behind),
        float(np.mean(behind)),
    )


def mean(scores: BySeed, measure: str) -> float:
    return float(np.mean([MEASURES[measure](score) for score in scores.values()]))


def summary_table(standings: Mapping[tuple[str, float, str], Standing]) -> Table:
    """A row for every group, budget and measure."""
    rows = [
        [
            f"{group}, {100 * budget:g} %, {measure}",
            str(one.streams),
            f"{100 * one.ours:.1f}",
            f"{100 * one.peer:.1f}",
            one.best_peer,
            f"{100 * one.difference:+.1f}",
            f"{one.level} of {one.streams}",
            f"{one.ahead} of {one.streams}",
            f"{100 * one.difference_looking_back:+.1f}",
        ]
        for (group, budget, measure), one in standings.items()
    ]
    columns = (
        "streams, budget, measure",
        "streams",
        "osamd",
        "best single\npeer",
        "which",
        "difference",
        "within 1 point of the\nbest peer of the stream",
        "ahead of it",
        "difference\nto it",
    )
    return Table("Means over the streams, in percent and points", columns, rows)


def stream_table(found: ByStream, rows_played: Mapping[str, int], measure: str, title: str) -> Table:
    """A row for every stream: ours with its interval, every peer, and the best one; peers that coincide appear once."""
    shown = distinct(found)
    rows = []
    for stream, learners in found.items():
        ours = mean_90([MEASURES[measure](score) for score in learners[OURS].values()])
        peers = [f"{100 * mean(learners[name], measure):.1f}" for name in shown]
        behind = gaps(learners, measure)
        best = RIVALS[min(shown, key=lambda name: behind[name])].title
        rows.append([stream, f"{rows_played[stream]:,}", in_words(ours, 1, 0.01), *peers, best])
    heads = ["\n".join(_narrow(RIVALS[name].title)) for name in shown]
    coincide = [RIVALS[name].title for name in next(iter(found.values())) if name not in (OURS, *shown)]
    notes = [f"Left out, since their results are those of others here: {'; '.join(coincide)}."] if coincide else []
    return Table(title, ["stream", "rows played", "osamd", *heads, "best peer"], rows, notes)


def distinct(found: ByStream) -> list[str]:
    """The peers, without those that score like a later one on every stream: their windows hold all labels."""
    names = [name for name in next(iter(found.values())) if name != OURS]
    return [
        name
        for i, name in enumerate(names)
        if not any(all(scores[name] == scores[later] for scores in found.values()) for later in names[i + 1 :])
    ]


def _narrow(title: str) -> list[str]:
    return title.replace(", ", " ").split()


def content(found: ByStream) -> dict[str, Any]:
    """Means over the seeds, by stream and learner; peers that coincide with a later one everywhere are left out."""
    shown = (OURS, *distinct(found))
    return {
        stream: {name: _means(scores) for name, scores in learners.items() if name in shown}
        for stream, learners in found.items()
    }


def _means(scores: BySeed) -> dict[str, Any]:
    accuracy = mean_90([score.accuracy for score in scores.values()])
    return {
        "seeds": len(scores),
        "labels": round(float(np.mean([score.labels for score in scores.values()])), 5),
        "accuracy": round(accuracy.mean, 5),
        "accuracy_half_width_90": None if accuracy.half_width_90 is None else round(accuracy.half_width_90, 5),
        "balanced_accuracy": round(mean(scores, "balanced accuracy"), 5),
    }


def in_json(standings: Mapping[tuple[str, float, str], Standing]) -> Sequence[dict[str, Any]]:
    return [
        {"group": group, "budget": budget, "measure": measure} | one._asdict()
        for (group, budget, measure), one in standings.items()
    ]
