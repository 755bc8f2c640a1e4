"""Our default learner against simple peers on tables and generated streams, all started from nothing.

    python -m osamd.prequential.compared --groups chosen tested --budgets 1%,2%,5%,10% --seeds 5 --out results/tables

It needs pip install 'osamd[research]'. It prints accuracy and balanced accuracy by stream and learner with a summary,
and writes them to tables.json. The scores of the peers are kept in a file, so that later only our learner is played;
--peers-only fills that file and plays nothing else.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError, require_whole
from osamd.evaluation.many import Runner, run_many
from osamd.evaluation.task_engines import ENGINES
from osamd.prequential.compared_streams import ALL, GROUPS
from osamd.prequential.labels import shares_of
from osamd.prequential.peers import RunScore
from osamd.prequential.refitted import REFITTED
from osamd.prequential.standings import MEASURES, Standing, content, in_json, standing, stream_table, summary_table
from osamd.prequential.trials import (
    OURS,
    RIVALS,
    Key,
    Trial,
    cheapest_first,
    identity,
    keep,
    kept_scores,
    key,
    play,
    size,
    standing_in,
)
from osamd.reporting.tables import Report, in_seeds
from osamd.reporting.terminal import files, progress, resumable

Found = dict[float, dict[str, dict[str, dict[int, RunScore]]]]
"""Scores by budget, stream, learner and seed."""


SLOW_BUDGET = 0.05
"""A forest takes most of the time, in proportion to the labels; above this budget it plays fewer seeds instead."""


class Comparison(NamedTuple):
    """What is compared."""

    streams: Sequence[str] = tuple(ALL)
    budgets: Sequence[float] = (0.01, 0.02, 0.05, 0.1)
    peers: Sequence[str] = tuple(REFITTED)
    first_seed: int = 0
    seeds: int = 5
    slow_seeds: int = 3
    """How many of the seeds a slow peer plays at budgets up to SLOW_BUDGET; above that it plays fewer."""
    rounds: int = 3000
    kept: Path | None = None
    """The file that keeps the scores of the peers."""

    def seeds_of(self, learner: str, budget: float) -> int:
        """How many seeds a learner plays.

        >>> plan = Comparison(seeds=5, slow_seeds=3)
        >>> plan.seeds_of("nearest", 0.1), plan.seeds_of("forest-all", 0.05), plan.seeds_of("forest-all", 0.1)
        (5, 3, 1)
        """
        if learner == OURS or not RIVALS[learner].slow:
            return self.seeds
        return min(self.seeds, max(1, math.floor(self.slow_seeds * min(1.0, SLOW_BUDGET / budget))))

    def trials(self, learner: str) -> list[Trial]:
        return [
            Trial(stream, self.first_seed + number, budget, learner, self.rounds)
            for stream in self.streams
            for budget in self.budgets
            for number in range(self.seeds_of(learner, budget))
        ]


def played_peers(plan: Comparison, runner: Runner | None = None) -> dict[Trial, RunScore]:
    """The scores of the peers: kept from earlier runs, or played now."""
    asked = {trial: standing_in(trial) for peer in plan.peers for trial in plan.trials(peer)}
    known: dict[Key, RunScore] = {} if plan.kept is None else kept_scores(plan.kept)
    keys = {trial: key(trial) for trial in set(asked.values())}
    missing = cheapest_first([trial for trial in dict.fromkeys(asked.values()) if keys[trial] not in known])
    keeping = None if plan.kept is None else partial(keep, plan.kept)
    with progress("peers", len(missing)) as one_done:
        scores = run_many(play, missing, (runner or Runner())._replace(kept=None), ended=keeping, progress=one_done)
    played = dict(zip(missing, scores, strict=True))
    return {trial: played[other] if other in played else known[keys[other]] for trial, other in asked.items()}


def compare(plan: Comparison, runner: Runner | None = None) -> Found:
    """Play all learners on the same rows; a seed determines the rows and the queries."""
    peers = played_peers(plan, runner)
    ours = plan.trials(OURS)
    with progress(OURS, len(ours)) as one_done:
        scores = dict(zip(ours, run_many(play, ours, runner, key=identity, progress=one_done), strict=True))
    found: Found = {}
    for trial, score in (scores | peers).items():
        by_learner = found.setdefault(trial.budget, {}).setdefault(trial.stream, {})
        by_learner.setdefault(trial.learner, {})[trial.seed] = score
    return found


def grouped(streams: Sequence[str]) -> dict[str, list[str]]:
    """The streams that are played, by group."""
    by_group = {group: [name for name in streams if name in members] for group, members in GROUPS.items()}
    return {group: names for group, names in by_group.items() if names}


def standings(found: Found, streams: Sequence[str]) -> dict[tuple[str, float, str], Standing]:
    """The standings by group, budget and measure."""
    return {
        (group, budget, measure): standing({name: by_stream[name] for name in names}, measure)
        for group, names in grouped(streams).items()
        for measure in MEASURES
        for budget, by_stream in found.items()
    }


def report(found: Found, plan: Comparison) -> Report:
    sizes = {name: size(name, plan.first_seed, plan.rounds) for name in plan.streams}
    rows_played = {name: one.rounds for name, one in sizes.items()}
    stood = standings(found, plan.streams)
    tables = [summary_table(stood)._replace(notes=rules(plan))]
    for (group, budget, measure), _ in stood.items():
        some = {name: found[budget][name] for name in grouped(plan.streams)[group]}
        title = f"{measure.capitalize()} %, {group} streams, {100 * budget:g} % of the labels"
        table = stream_table(some, rows_played, measure, f"{title}, {in_seeds(plan.seeds)}")
        tables.append(table._replace(notes=[*table.notes, *fewer_seeds(plan, [budget])]))
    written: dict[str, Any] = {
        "rounds_at_most": plan.rounds,
        "first_seed": plan.first_seed,
        "seeds": plan.seeds,
        "versions": {RIVALS[name].package: RIVALS[name].version for name in plan.peers},
        "peers": {name: RIVALS[name].title for name in plan.peers},
        "streams": {
            name: {
                "group": next(group for group, names in GROUPS.items() if name in names),
                "rounds": one.rounds,
                "features": one.features,
                "classes": one.classes,
            }
            for name, one in sizes.items()
        },
        "summary": in_json(stood),
        "scores": {f"{budget:g}": content(by_stream) for budget, by_stream in found.items()},
    }
    return Report(tables, written)


def rules(plan: Comparison) -> list[str]:
    """What holds for all tables, in sentences."""
    return [
        f"At most {plan.rounds:,} rows of each stream, started from nothing. Every learner keeps the budget at every"
        " round, and the default peers ask by random variable uncertainty.",
        *fewer_seeds(plan, plan.budgets),
    ]


def fewer_seeds(plan: Comparison, budgets: Sequence[float]) -> list[str]:
    """Which peers play fewer seeds than our learner, if any do."""
    slow = [name for name in plan.peers if RIVALS[name].slow]
    seeds = {budget: plan.seeds_of(slow[0], budget) for budget in budgets} if slow else {}
    if all(some == plan.seeds for some in seeds.values()):
        return []
    titles = "; ".join(RIVALS[name].title for name in slow)
    by_budget = ", ".join(f"{in_seeds(some)} at {100 * budget:g} %" for budget, some in seeds.items())
    return [f"The slow peers ({titles}) play {by_budget}; differences to them are over those seeds."]


def require_packages(plan: Comparison) -> None:
    for name in plan.peers:
        if not RIVALS[name].installed:
            raise InputError(f"`compare`: {RIVALS[name].package} is not installed; pip install 'osamd[research]'.")


def plan_of(given: argparse.Namespace) -> Comparison:
    """The comparison that the options describe, checked."""
    for option in ("rounds", "seeds", "slow_seeds"):
        require_whole("compare", option, getattr(given, option))
    require_whole("compare", "first_seed", given.first_seed, least=0)
    streams = given.streams or [name for group in given.groups for name in GROUPS[group]]
    plan = Comparison(
        streams,
        shares_of(given.budgets.split(",")),
        given.peers,
        given.first_seed,
        given.seeds,
        given.slow_seeds,
        given.rounds,
        given.kept or given.out / "peers.jsonl",
    )
    require_packages(plan)
    return plan


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m osamd.prequential.compared", description=__doc__)
    add = parser.add_argument
    add("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="of streams (both)")
    add("--streams", nargs="+", choices=ALL, metavar="NAME", help="these streams instead of whole groups")
    add("--budgets", default="1%,2%,5%,10%", help="shares of the rounds (1%%,2%%,5%%,10%%)")
    add("--peers", nargs="+", choices=RIVALS, default=list(REFITTED), metavar="NAME", help=", ".join(RIVALS))
    add("--seeds", type=int, default=5, help="how many (5)")
    add("--first-seed", type=int, default=0, help="the first seed; constants are chosen on seeds from 100 on (0)")
    add("--slow-seeds", type=int, default=3, help="how many of the seeds slow peers play, fewer above 5%% (3)")
    add("--rounds", type=int, default=3000, help="at most, of each stream (3000)")
    add("--engine", choices=ENGINES, default="local", help="processes of this machine, or Ray (local)")
    add("--workers", type=int, help="runs at a time, all cores by default")
    add("--kept", type=Path, help="file that keeps the scores of the peers (peers.jsonl in the folder of --out)")
    add("--peers-only", action="store_true", help="play only the peers whose scores the file lacks")
    add("--out", type=Path, default=Path("results/tables"), help="folder for tables.json")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options()
    given = parser.parse_args(arguments)
    try:
        plan = plan_of(given)
        if given.peers_only:
            scores = played_peers(plan, Runner(given.engine, given.workers))
            print(f"{len(scores)} scores of peers are in {plan.kept}.")
            return
        with files(given.out, "tables.json") as deliver, resumable(given.out) as kept:
            deliver(report(compare(plan, Runner(given.engine, given.workers, kept)), plan))
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
