"""The command that measures the default learner on hard streams, and says whether it does harm."""

import json
import sys

import numpy as np
import pytest

from osamd import OSAMD
from osamd.cli.app import main
from osamd.evaluation.answers import Answers
from osamd.reproduce.robustness import drifting, hard_tables, harm, harm_report, learner_runs
from osamd.reproduce.robustness.groups import GROUPS
from osamd.reproduce.robustness.plans import RobustnessPlan
from osamd.streams import NoisyLabels, overlapping_gaussians, rotating_gaussian


def command(folder, *options):
    assert main(["robustness", *options, "--workers", "1", "--out", str(folder)]) == 0
    return json.loads((folder / "robustness.json").read_text())


def test_every_learner_is_measured_on_every_drifting_stream(tmp_path, capsys):
    content = command(tmp_path, "--group", "drift", "--seeds", "2", "--rounds", "400", "--budgets", "10%")
    assert content["seeds"] == 2
    assert list(content["groups"]) == ["drift"]
    group = content["groups"]["drift"]
    assert group["rounds"] == 400
    (found,) = group["budgets"]
    assert found["budget"] == 0.1
    assert list(found["streams"]) == list(drifting.STREAMS)
    for stream in found["streams"].values():
        assert list(stream["learners"]) == list(drifting.DRIFT)
        for name, learner in stream["learners"].items():
            assert 0.0 < learner["accuracy"]["mean"] <= 1.0
            assert learner["labels"]["mean"] == 1.0 if name.startswith("omd-all") else learner["labels"]["mean"] <= 0.1
            assert len(learner["accuracy_by_class"]) == 2
            assert [one["change"] for one in learner["recovery"]] == stream["changes"]
    changes = {name: stream["changes"] for name, stream in found["streams"].items() if stream["changes"]}
    assert changes == {
        "flip": [200],
        "recurring": [100, 200, 300],
        "gradual": [250],
        "noise-flip": [200],
        "irrelevant-flip": [200],
    }
    printed = capsys.readouterr().out
    for title in (
        *(title for title, _ in drifting.STREAMS.values()),
        *(drifting.LEARNERS[m].title for m in drifting.DRIFT),
    ):
        assert title in printed
    assert str(tmp_path / "robustness.json") in printed


def test_hard_tables_are_measured_by_accuracy_and_balanced_accuracy(tmp_path, capsys):
    content = command(tmp_path, "--group", "tables", "--seeds", "1", "--rounds", "400", "--budgets", "2%,10%")
    group = content["groups"]["tables"]
    assert [found["budget"] for found in group["budgets"]] == [0.02, 0.1]
    for found in group["budgets"]:
        assert list(found["streams"]) == list(hard_tables.STREAMS)
        for stream in found["streams"].values():
            assert list(stream["starts"]) == list(hard_tables.STARTS)
            for start, one in stream["starts"].items():
                assert 0.0 < one["balanced_accuracy"]["mean"] <= 1.0
                assert one["labels"]["mean"] <= (0.0 if start == "left-alone" else found["budget"])
        rare = found["streams"]["rare"]["starts"]["left-alone"]
        assert rare["accuracy"]["mean"] > 0.9 > rare["balanced_accuracy"]["mean"]
    printed = capsys.readouterr().out
    assert all(title in printed for title, _ in hard_tables.STREAMS.values())


def test_every_way_of_answering_is_measured_on_every_still_stream(tmp_path, capsys):
    content = command(tmp_path, "--group", "harm", "--seeds", "1", "--rounds", "400", "--budgets", "5%")
    group = content["groups"]["harm"]
    assert list(group["ways"]) == list(harm.WAYS)
    for way in group["ways"].values():
        assert list(way["streams"]) == list(harm.STREAMS)
        for name, stream in way["streams"].items():
            (cell,) = stream["budgets"]
            alone = group["left_alone"][name]["accuracy"]["mean"]
            assert cell["points"]["mean"] == pytest.approx(100.0 * (cell["accuracy"]["mean"] - alone))
            assert cell["worst_points"] == pytest.approx(cell["points"]["mean"])
            assert cell["labels"]["mean"] <= 0.05
            assert sum(cell["health"].values()) == 1
    printed = capsys.readouterr().out
    for way in harm.WAYS.values():
        assert way.title in printed


def test_each_way_has_its_own_budgets_unless_some_are_given():
    assert [one.budget for one in harm.settings(None) if one.way == "nobody"] == [0.01, 0.05, 0.2]
    assert [one.budget for one in harm.settings(None) if one.way == "all"] == [0.01, 0.02, 0.05, 0.1]
    assert {one.budget for one in harm.settings((0.3,))} == {0.3}
    assert len(harm.settings((0.3,))) == len(harm.WAYS)


def accuracies(*by_seed):
    """What `harm.run` gives on each stream, where only nobody's answers at 5 % matter: the source model has 0.9."""
    alone = harm.RunSummary(0.9, 0.9, 0.9, 0.0, "")

    def played(accuracy, one):
        mine = accuracy if one.way == "nobody" else 0.9
        return harm.RunSummary(mine, mine, mine, 0.05, "unknown")

    one_stream = [harm.Harm(alone, {one: played(a, one) for one in harm.settings((0.05,))}) for a in by_seed]
    return one_stream * len(harm.STREAMS)


@pytest.mark.parametrize(
    ("by_seed", "holds"),
    [
        ((0.9, 0.9), True),
        ((0.895, 0.8951), True),
        ((0.894, 0.8951), False),  # 0.545 points below in the mean
        ((0.884, 0.95), False),  # better in the mean, but 1.6 points below on one seed
        ((0.8851, 0.91), True),
    ],
)
def test_a_bar_holds_for_the_mean_and_for_the_worst_seed(by_seed, holds):
    report = harm_report.report(RobustnessPlan(2, 400, [0.05]), accuracies(*by_seed))
    for name in ("nobody", "lost"):
        for stream in report.content["ways"][name]["streams"].values():
            assert stream["budgets"][0]["holds"] is (holds or name == "lost")
    nobody, *_, bars = report.tables
    assert all((harm_report.BROKEN in row[2]) is not holds for row in nobody.rows)
    assert bars.rows[0][2] == f"{7 if holds else 0} of 7"
    assert nobody.rows[0][3] == "unknown 2"
    assert bars.rows[0][4] == "unknown 14"


def test_wrong_answers_have_a_wider_bar_and_answered_ones_none_for_a_single_seed():
    assert harm.WAYS["wrong"].bar == harm.Bar(1.0, 1.5)
    assert harm.WAYS["all"].bar == harm.Bar(0.5, None)
    assert all(harm.WAYS[name].bar == harm.Bar(0.5, 1.5) for name in ("nobody", "lost", "late"))


@pytest.mark.parametrize("stream", [rotating_gaussian(300), overlapping_gaussians(300)], ids=["two", "three"])
def test_the_source_left_alone_decides_as_the_model_that_a_learner_starts_from(stream):
    rounds = learner_runs.rounds_of(stream, 1)
    alone = learner_runs.left_alone(stream, rounds, 100, 1)
    started = OSAMD.from_source(*stream.source(100, 1), method="paa")  # decides by its weights as they are
    decided = np.array([started.predict(row) for row in rounds.x])
    assert (alone.right == (decided == rounds.truth)).all()
    assert not alone.asked.any()


def test_late_labels_are_late_by_so_many_rounds():
    late = drifting.LEARNERS["osamd-preset-late"].answers
    assert late == Answers()._replace(delay=late.delay)
    assert late.delay.fixed == drifting.LATE == 200
    one, other = (
        drifting.run(drifting.DriftTask("rotation", name, 0, 2000, 0.05))
        for name in ("osamd-preset", "osamd-preset-late")
    )
    assert (one.truth == other.truth).all()
    assert (one.right != other.right).any()


def test_accuracy_is_against_the_truth_and_not_against_the_noise():
    found = drifting.run(drifting.DriftTask("noise", "osamd-preset", 0, 2000, 0.05))
    assert found.accuracy > 0.95  # no more than 0.9 of the labels that are told are true
    rounds = learner_runs.rounds_of(NoisyLabels(rotating_gaussian(2000), 0.1), 0)
    assert (rounds.truth == rotating_gaussian(2000).sample(0)[1]).all()
    assert (rounds.truth != rounds.y).any()


def test_the_preset_hardly_knows_units():
    one, other = (
        drifting.run(drifting.DriftTask(name, "osamd-preset", 0, 2000, 0.05)) for name in ("rotation", "unscaled")
    )
    assert np.mean(one.right != other.right) < 0.005


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budgets", "0"), "as in --budgets 5%"),
        (("--rounds", "399"), "--rounds"),
        (("--group", "drift,harms"), "Did you mean 'harm'? Known: drift, tables, harm, late."),
    ],
)
def test_a_bad_option_is_one_sentence_before_any_work(options, words, capsys, tmp_path):
    assert main(["robustness", *options, "--out", str(tmp_path / "new")]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_without_scikit_learn_still_tables_are_refused_before_any_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert main(["robustness", "--out", str(tmp_path / "new")]) == 2
    assert "pip install 'osamd[sklearn]'" in capsys.readouterr().err


def test_all_groups_are_run_where_none_is_named():
    assert list(GROUPS) == ["drift", "tables", "harm", "late"]
    plan = RobustnessPlan(3)
    streams = (len(drifting.STREAMS), len(hard_tables.STREAMS), len(harm.STREAMS))
    counts = [len(group.tasks(plan)) for group in GROUPS.values()]
    assert counts == [3 * 5 * streams[0], 3 * 2 * streams[1], 3 * streams[2], 3 * 4 * streams[0]]


def test_the_accuracy_of_a_class_is_that_of_its_rounds_and_the_balanced_one_the_mean_of_those_that_occur():
    one = learner_runs.RobustnessRun(np.array([True, False, True]), np.zeros(3, dtype=bool), np.array([0, 0, 2]))
    assert [one.accuracy_of(i) for i in range(3)] == [0.5, 1.0, 1.0]
    assert one.balanced_accuracy == 0.75
