"""State is a fold of the log: whatever is asked, wherever the service is stopped or killed, it goes on bit for bit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_cases import Clock, Service, bits, linear_state, module_state, row
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from osamd.service import engine as engines
from osamd.service.desk import AnsweredQuery, Refusal, Waiting
from osamd.service.folder import open_state
from osamd.service.log import Event

LIMITS = {"max_pending": 6, "expire_after": 25}

KINDS = {
    "two classes": lambda folder: linear_state(folder, limits=LIMITS),
    "three classes": lambda folder: linear_state(folder, classes=3, limits=LIMITS),
    "standardised": lambda folder: linear_state(folder, limits=LIMITS, standardise=True, budget=0.6, floor=0.2),
    "preset": lambda folder: linear_state(folder, limits=LIMITS, method="osamd-preset", sigma=None, budget=0.6),
    "preset of three classes": lambda folder: linear_state(
        folder, classes=3, limits=LIMITS, method="osamd-preset", sigma=None, budget=0.6, max_labels=40
    ),
    "network": module_state,
    "preset of a network": lambda folder: module_state(folder, budget=0.6),
}

BUDGETS = [
    {"budget": 0.9},
    {"budget": 0.4, "budget_window": 30},
    {"max_labels": 12},
    {"budget": 0.5, "max_labels": None},
]

nameless = st.tuples(st.none(), st.integers(0, 99))
named = st.integers(0, 9).map(lambda n: (f"id-{n}", n))
reused = st.tuples(st.sampled_from(["id-0", "id-1"]), st.integers(0, 3))
samples = st.lists(st.one_of(nameless, nameless, named, reused), min_size=1, max_size=5)
places, classes = st.integers(0, 5), st.integers(0, 1)
people = st.sampled_from(["ann", "bob"])
commands = st.one_of(
    st.tuples(st.just("observe"), samples),
    st.tuples(st.just("observe"), samples),
    st.tuples(st.just("answer"), st.lists(st.tuples(places, classes), min_size=1, max_size=3)),
    st.tuples(st.just("answer any"), st.tuples(st.integers(0, 30) | named.map(lambda one: one[0]), classes)),
    st.tuples(st.just("skip"), places, people),
    st.tuples(st.just("expire"), places),
    st.tuples(st.just("expire_older"), st.integers(0, 20)),
    st.tuples(st.just("change_budget"), st.sampled_from(BUDGETS), people),
    st.tuples(st.just("add_class"), st.sampled_from([{"name": "elk"}, {"name": "yak", "about": "large"}]), people),
    st.tuples(st.just("claim"), people, st.sampled_from(["oldest", "valuable"]), st.integers(1, 3), st.just(60.0)),
)
steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 61.0, 30_000.0]),  # how far the clock goes: renewed leases are not in the log
        st.lists(commands, min_size=1, max_size=4),  # at the same time
        st.sampled_from(["go on", "go on", "kill", "stop"]),
    ),
    min_size=4,
    max_size=14,
)


def _samples(first: int) -> tuple[Any, ...]:
    return "observe", [(None, number) for number in range(first, first + 5)]


RICH = [
    (0.0, [("observe", [(None, 1), ("id-0", 0), ("id-0", 0), (None, 2)]), _samples(10)], "kill"),
    (0.0, [_samples(20), ("claim", "ann", "oldest", 2, 60.0), ("answer", [(0, 1), (0, 0)])], "kill"),
    (0.0, [("skip", 1, "ann"), ("answer any", (3, 0)), ("observe", [("id-0", 3)])], "stop"),
    (61.0, [_samples(30), ("expire", 0), ("answer", [(1, 1), (1, 1)]), ("claim", "bob", "valuable", 3, 60.0)], "kill"),
    (0.0, [("change_budget", {"budget": 0.9}, "ann"), _samples(35), ("add_class", {"name": "elk"}, "ann")], "kill"),
    (30_000.0, [_samples(40), _samples(45), _samples(50)], "go on"),
    (30_000.0, [("expire_older", 3), ("answer", [(5, 0)]), _samples(60), _samples(70)], "kill"),
]
"""Something of everything."""


def call(service, command):
    """The method of the engine, and its arguments."""
    name, *given = command
    asked = [one.event.round for one in service.engine.queries()] or [0]
    if name == "observe":
        given = [[(of, row(number)) for of, number in given[0]]]
    elif name == "answer":
        given = [[(asked[place % len(asked)], label, "ann") for place, label in given[0]]]
    elif name == "answer any":
        name, given = "answer", [[(*given[0], "bob")]]
    elif name in ("skip", "expire"):
        given[0] = asked[given[0] % len(asked)]
    return getattr(service.engine, name), *given


def plain(outcome):
    if isinstance(outcome, list):
        return [plain(one) for one in outcome]
    if isinstance(outcome, Waiting):
        return outcome.event.round
    if isinstance(outcome, Refusal):
        return outcome.code, outcome.message
    assert outcome is None or isinstance(outcome, Event | AnsweredQuery | str | int | dict)
    return outcome


def interrupted(state, url, steps, every):
    """All commands of a step at once, then perhaps a stop or a kill; a snapshot after every few events."""
    service, outcomes = Service(state, url, Clock()), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "POINT_EVERY", 5)
        patch.setattr(engines, "SNAPSHOT_EVERY", every)
        service.__enter__()
        for seconds, together, then in steps:
            service.clock.now += seconds
            calls = [call(service, command) for command in together]

            async def all_of_them(service=service, calls=calls):
                return await asyncio.gather(*(service.engine.do(*one) for one in calls), return_exceptions=True)

            outcomes.append([plain(one) for one in asyncio.run(all_of_them())])
            if then != "go on":
                service.kill() if then == "kill" else service.stop()
                service = service.again()
                service.__enter__()
        service.agrees()
        found = what_it_is(service)
        service.stop()
    return outcomes, found


def undisturbed(state, url, steps):
    """The same commands one by one, and no snapshot."""
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "POINT_EVERY", 5)
        with Service(state, url, Clock()) as service:
            for seconds, together, _ in steps:
                service.clock.now += seconds
                calls = [call(service, command) for command in together]
                found = [asyncio.run(_outcome(service, one)) for one in calls]
                outcomes.append([plain(one) for one in found])
            return outcomes, what_it_is(service)


async def _outcome(service, one):
    return (await asyncio.gather(service.engine.do(*one), return_exceptions=True))[0]


def what_it_is(service):
    status = service.engine.status()
    return service.events, bits(service.learner), service.waiting, status, service.points


ALL_KINDS = {
    "budget",
    "sample",
    "label",
    "expire",
    "claim",
    "skip",
    "asked",
    "not asked",
    "repeated",
    "id-reused",
    "answered",
}


def met_in(outcomes, events):
    """Which kinds of events and outcomes there were, so that the examples are known to be worth their time."""
    flat = [one for step in outcomes for told in step for one in (told if isinstance(told, list) else [told])]
    answers = {one.status for one in flat if isinstance(one, AnsweredQuery)}
    refusals = {one[0] for one in flat if type(one) is tuple}
    asked = {"asked" if event.query else "not asked" for event in events if event.kind == "sample"}
    return {event.kind for event in events} | answers | refusals | asked


@pytest.mark.parametrize("kind", KINDS)
def test_stops_kills_and_snapshots_make_no_difference(kind, new_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fold") / "state"
    KINDS[kind](folder)
    state = open_state(folder)
    slow = "postgresql" in new_url() or kind == "network"

    @settings(
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],  # to make a failure small takes minutes: each example starts services
        max_examples=4 if slow else 10,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(steps, st.sampled_from([1, 7, 100_000]))
    @example(RICH, 7)
    def holds(steps, every):
        beside = tmp_path_factory.mktemp("log") / "log.sqlite"
        told, is_now = undisturbed(state, f"sqlite:///{beside}", steps)
        told_then, was = interrupted(state, new_url(), steps, every)
        assert told_then == told
        events, learner, waiting, status, points = was
        assert events == is_now[0]
        assert learner == is_now[1]
        assert waiting == is_now[2]
        assert status == is_now[3]
        assert points == is_now[4]
        met.update(met_in(told, events))

    met: set[str] = set()
    holds()
    assert met >= ALL_KINDS
