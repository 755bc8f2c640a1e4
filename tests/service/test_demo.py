"""The demo: a stream that drifts, a service that keeps up with it, and a simulated person."""

import numpy as np
import pytest
from http_cases import ServedHere, until

from osamd.client import Client, ServiceError
from osamd.service import demo


class Desk:
    """A service in memory, with as much of the client as the demo uses."""

    def __init__(self, state):
        self.learner, self.now = state.learner(), 0.0
        self.asked_at, self.held, self.told = {}, set(), []

    def decide_many(self, rows):
        decisions = []
        for row in rows:
            decision = self.learner.ask(row)
            if decision.query:
                self.asked_at[decision.id] = self.now
            else:
                self.learner.tell(decision)
            decisions.append({"round": decision.id, "query": decision.query, "label": decision.label})
        return decisions

    def queries(self, limit):
        found = [{"round": n, "asked_at": at, "held": n in self.held} for n, at in self.asked_at.items()]
        return found[:limit]

    def tell(self, label, round):
        self.learner.tell(round, label)
        self.told.append((round, label, self.now - self.asked_at.pop(round)))


def test_the_learner_of_the_demo_keeps_up_with_the_turn_and_one_that_is_left_alone_does_not(tmp_path):
    desk, generator = Desk(demo.demo_state(tmp_path / "demo")), np.random.default_rng(5)
    alone, right, alone_right = desk.learner.copy(), 0, 0
    half, step = demo.TURN // 2, 10
    for first in range(0, half, 100):  # half a turn, of which every tenth round is played
        rows, kinds = demo.samples(step, first, generator)
        for row, kind, decision in zip(rows, kinds, desk.decide_many(rows), strict=True):
            if first > half // 2:
                right += decision["label"] == demo.CLASSES[kind]
                alone_right += alone.predict(row) == demo.CLASSES[kind]
            if decision["query"]:
                desk.tell(demo.CLASSES[kind], decision["round"])
    rounds = step * sum(first > half // 2 for first in range(0, half, 100))
    assert desk.learner.asked <= 0.05 * desk.learner.rounds
    assert right / rounds > alone_right / rounds + 0.1


def test_a_query_is_answered_with_the_truth_after_a_while_unless_somebody_holds_it(tmp_path, monkeypatch):
    desk = Desk(demo.demo_state(tmp_path / "demo"))
    monkeypatch.setattr(demo.time, "time", lambda: desk.now)
    feeder, generator, truth, first = demo.Feeder("http://unused"), np.random.default_rng(6), {}, 0
    while len(truth) < 2:
        rows, kinds = demo.samples(demo.BATCH, first, generator)
        for kind, decision in zip(kinds, desk.decide_many(rows), strict=True):
            if decision["query"]:
                truth[decision["round"]] = demo.CLASSES[kind]
        first += demo.BATCH
    mine, theirs = list(truth)[:2]
    known = dict(truth)
    desk.held.add(mine)
    desk.now = demo.PATIENCE - 0.1
    feeder._answer(desk, truth)
    assert desk.told == []
    desk.now = demo.PATIENCE + 0.1
    feeder._answer(desk, truth)
    assert (theirs, known[theirs]) in [told[:2] for told in desk.told]
    assert mine in truth
    desk.held.clear()
    feeder._answer(desk, truth)
    assert (mine, known[mine]) in [told[:2] for told in desk.told]


def test_the_images_are_those_of_their_seed_and_move_round_the_picture():
    again = [demo.samples(4, 0, np.random.default_rng([0, 2]))[0] for _ in range(2)]
    assert np.array_equal(*again)
    assert again[0].min() >= 0.0
    assert again[0].max() <= 1.0
    still = np.random.default_rng(0)
    up = np.mean([demo.image(0, 0.0, still) for _ in range(50)], axis=0).reshape(demo.SIZE, demo.SIZE)
    down = np.mean([demo.image(0, np.pi, still) for _ in range(50)], axis=0).reshape(demo.SIZE, demo.SIZE)
    assert up[: demo.SIZE // 2].sum() > 2 * up[demo.SIZE // 2 :].sum()
    assert down[demo.SIZE // 2 :].sum() > 2 * down[: demo.SIZE // 2].sum()


def test_rounds_and_labels_move_in_a_service_that_is_fed_and_the_feeder_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PATIENCE", 0.0)
    monkeypatch.setattr(demo, "BETWEEN", 0.001)
    said = []
    with ServedHere(demo.demo_state(tmp_path / "demo")) as served:
        feeder = demo.Feeder(served.url, told=said.append)
        feeder.start()
        with Client(served.url) as service:
            until(lambda: service.status()["told"] >= 3, "queries are answered")
            status = service.status()
            assert status["rounds"] >= 60
            assert status["asked"] <= 0.05 * status["rounds"]
            assert service.schema()["title"] == "Ring or cross"
    feeder._thread.join(30)  # the service has ended
    assert not feeder._thread.is_alive()
    feeder.stop()
    assert said == []


def test_a_refusal_is_told_and_the_stream_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "BETWEEN", 0.0)
    said = []

    def full(*_):
        if len(said) < 2:
            raise ServiceError(503, "storage", "the disk is full.")
        raise ServiceError(0, "unreachable", "it has ended.")

    monkeypatch.setattr(Client, "decide_many", full)
    feeder = demo.Feeder("http://127.0.0.1:9", told=said.append)
    feeder.start()
    feeder._thread.join(30)
    assert said == ["demo: storage: the disk is full."] * 2
    feeder.stop()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_demo_starts_right(tmp_path, seed):
    learner = demo.demo_state(tmp_path / "demo", seed).learner()
    rows, kinds = demo.samples(200, 0, np.random.default_rng([seed, 3]))
    assert np.mean([learner.predict(row) == demo.CLASSES[kind] for row, kind in zip(rows, kinds, strict=True)]) > 0.95
