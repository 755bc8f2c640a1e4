"""The linear preset is stated once, in plain functions; what `osamd.OSAMD` runs is the same, compiled."""

import numpy as np
import pytest

from osamd import OSAMD
from osamd.accounting import book as books
from osamd.accounting import budget, steering
from osamd.paper.scores import UNLABELLED
from osamd.preset import state as layout
from osamd.preset.arbiter import POWER, limits
from osamd.preset.round import gather, learn, observe, remember
from osamd.preset.views import named
from osamd.streams.base import query_generator


def table(classes, rounds, features=4, seed=0):
    """Rows whose class follows planes, with some noise."""
    generator = np.random.default_rng([seed, classes])
    x = generator.normal(size=(rounds, features)) + 1.0
    planes = generator.normal(size=(classes, features))
    return x, (x @ planes.T + 0.3 * generator.normal(size=(rounds, classes))).argmax(axis=1)


def plain_rounds(state, work, book, rows, labels, uniforms, floor):
    """Opinions and queries of the plain round, every label told at once."""
    said = []
    for row, label, u in zip(rows, labels.tolist(), uniforms, strict=True):
        sigma, least, _ = books.terms(book)
        opinion = observe(state, work, row, u, sigma, least)
        steering.enter(book, opinion.margin**POWER, opinion.probability, opinion.query)
        if opinion.query and state[layout.KEPT] >= state[layout.CAPACITY]:
            seen = layout.work_of(work, state)
            state = layout.resized(state, capacity=layout.more_room(int(state[layout.CAPACITY])))
            work = layout.open_work(state)
            for name, part in named(layout.work_of(work, state)).items():
                if part.shape == named(seen)[name].shape:
                    part[:] = named(seen)[name]
        weight = min(1.0, floor / opinion.probability) if opinion.query else 0.0
        learn(state, work, opinion.pseudolabel, label if opinion.query else UNLABELLED, weight)
        said.append(opinion)
    return state, said


@pytest.mark.parametrize(("classes", "sourced"), [(2, False), (3, True)])
def test_the_compiled_learner_plays_the_plain_round(classes, sourced):
    x, y = table(classes, 420)
    first, rows = (60, x[60:]) if sourced else (0, x)
    rate, floor = limits(0.2, None)
    book = steering.open_book(budget.budget(rate, floor=floor), 1.0, "margin")
    steering.hasten(book, on=not sourced)
    state = layout.open_state(4, classes, rate)
    if sourced:
        learner = OSAMD.from_source(x[:first], y[:first], classes=range(classes), budget=0.2, seed=3)
        state = layout.resized(state, capacity=64)
        work = layout.open_work(state)
        gather(state, work, x[:first])
        layout.begin(state, learner._core._parts.source.copy())
        remember(state, work, x[:first], y[:first])
    else:
        learner, work = OSAMD(features=4, classes=classes, budget=0.2, seed=3), layout.open_work(state)
    uniforms = query_generator(3).random(len(rows))
    state, said = plain_rounds(state, work, book, rows, y[first:], uniforms, floor)
    for row, label, opinion in zip(rows, y[first:].tolist(), said, strict=True):
        decision = learner.ask(row)
        assert (decision.label, decision.query) == (opinion.label, opinion.query)
        assert decision.margin == pytest.approx(opinion.margin, rel=1e-7, abs=1e-10)
        assert decision.probability == pytest.approx(opinion.probability, rel=1e-7)
        learner.tell(decision, label if decision.query else None)
    for name, part in named(layout.parts_of(state)).items():
        np.testing.assert_allclose(named(learner._core._parts)[name], part, rtol=1e-6, atol=1e-9, err_msg=name)
    assert learner.asked > 0.1 * len(rows)


def test_observing_leaves_the_state_as_it_is():
    x, y = table(2, 200)
    state = layout.open_state(4, 2, 0.1)
    work = layout.open_work(state)
    for row, label in zip(x[:25], y[:25].tolist(), strict=True):
        opinion = observe(state, work, row, 0.5, 1.0, 0.0)
        learn(state, work, opinion.pseudolabel, label, 1.0)
    before = state.copy()
    for row in x[25:50]:
        observe(state, work, row, 0.5, 1.0, 0.0)
    assert (state == before).all()


@pytest.mark.parametrize("change", [{"capacity": 64}, {"classes": 4}], ids=["room", "classes"])
def test_more_room_changes_no_opinion_of_the_classes_there_were(change):
    x, y = table(3, 60)
    state = layout.open_state(4, 3, 0.1)
    work = layout.open_work(state)
    for row, label in zip(x[:30], y[:30].tolist(), strict=True):
        opinion = observe(state, work, row, 0.5, 1.0, 0.0)
        learn(state, work, opinion.pseudolabel, label, 1.0)
    grown = layout.resized(state, **change)
    room = layout.open_work(grown)
    compared = 0
    for row in x[30:]:
        before, after = observe(state, work, row, 0.5, 1.0, 0.0), observe(grown, room, row, 0.5, 1.0, 0.0)
        if before.margin > 0.05:  # an even share for one more class moves what is tied
            assert after.label == before.label
            compared += 1
    assert compared > 15


def test_every_part_of_the_state_has_its_own_place():
    state = layout.open_state(3, 3, 0.1)
    parts = named(layout.parts_of(state))
    state[:] = 0.0
    for part in parts.values():
        part += 1.0
    assert (state == 1.0).all()
