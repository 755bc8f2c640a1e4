"""The label curve: what `osamd labels` writes, the answer it gives, and how it refuses."""

import json

import numpy as np
import pytest

from osamd.cli.app import main
from osamd.prequential import peers
from osamd.prequential.label_runs import STREAMS, LabelRun, played
from osamd.prequential.labels import LabelsNeeded, label_curve, labels_for, sentence

QUICK = ("--rounds", "150", "--budgets", "20%,10%", "--seeds", "2", "--warmup", "40", "--workers", "1")


def labels(*arguments):
    return main(["labels", *arguments])


def refusal(capsys):
    """The one sentence on stderr."""
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.endswith(".\n")
    assert "Wrote" not in captured.out
    return captured.err


@pytest.fixture
def table(tmp_path):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 300)
    x = generator.normal(size=(300, 2)) + 3.0 * np.stack([y == 1, y == 2], axis=1)
    lines = [f"{a},{b},{'red' if c else 'blue'},k{k}" for (a, b), c, k in zip(x, y == 2, y, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b,colour,kind", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("points", "answer"),
    [
        ([(0.01, 0.90), (0.04, 0.94), (0.16, 0.98)], LabelsNeeded(0.02, smallest=False, falls=False)),
        ([(0.16, 0.98), (0.04, 0.94), (0.01, 0.90)], LabelsNeeded(0.02, smallest=False, falls=False)),
        ([(0.01, 0.90), (0.04, 0.92)], LabelsNeeded(0.04, smallest=False, falls=False)),
        ([(0.01, 0.93), (0.04, 0.94)], LabelsNeeded(0.01, smallest=True, falls=False)),
        ([(0.01, 0.93), (0.04, 0.91), (0.16, 0.94)], LabelsNeeded(0.01, smallest=True, falls=True)),
        ([(0.01, 0.90), (0.04, 0.94), (0.16, 0.91)], LabelsNeeded(0.02, smallest=False, falls=True)),
        ([(0.01, 0.90), (0.04, 0.919)], LabelsNeeded(None, smallest=False, falls=False)),
        ([(0.0, 0.90), (0.04, 0.93)], LabelsNeeded(0.04, smallest=False, falls=False)),
        ([(0.02, 0.95)], LabelsNeeded(0.02, smallest=True, falls=False)),
    ],
)
def test_the_labels_needed_lie_where_the_curve_first_reaches_the_target(points, answer):
    assert labels_for(points, target=0.92) == answer


def test_the_sentence_says_what_was_found_and_no_more():
    level = "the accuracy of full supervision minus one point (92.0 %)"
    crossed = sentence("OSAMD", [(0.01, 0.90), (0.04, 0.94)], full=0.93)
    assert crossed == f"About 2 % of the labels reach {level} with OSAMD."
    already = sentence("OSAMD", [(0.01, 0.925), (0.04, 0.94)], full=0.93)
    assert already.startswith(f"1 % of the labels, the fewest that were tried, already reach {level}")
    never = sentence("OSAMD", [(0.01, 0.80), (0.04, 0.85), (0.2, 0.84)], full=0.93)
    assert never.startswith(f"No budget that was tried, up to 20 % of the labels, reaches {level} with OSAMD")
    assert never.endswith("its best is 85.0 %, with 4 % of the labels.")
    assert "falls below it again" in sentence("OSAMD", [(0.01, 0.9), (0.04, 0.94), (0.1, 0.91)], full=0.93)


def test_a_stream_by_name_gives_a_curve_for_every_method_and_writes_it(tmp_path, capsys):
    assert labels("rotating-gaussian", *QUICK, "--no-peers", "--out", str(tmp_path / "new")) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["labels.json", "labels.png", "labels.svg"]
    content = json.loads((tmp_path / "new" / "labels.json").read_text())
    assert content["stream"] == "rotating-gaussian"
    assert content["rounds"] == 150
    assert content["full_supervision"]["method"] == "omd-all"
    assert content["answer"]["method"] == "osamd-preset"
    assert len(content["methods"]) == 6
    assert "omd-all" not in content["methods"]
    for curve in content["methods"].values():
        assert curve["seeds"] == 2
        assert [point["budget"] for point in curve["points"]] == [0.1, 0.2]
        for point in curve["points"]:
            assert 0.0 < point["labels"]["mean"] <= point["budget"]
            assert point["accuracy"]["half_width_90"] is not None
    printed = capsys.readouterr().out
    assert content["answer"]["sentence"] in printed
    assert "OSAMD w/o active query" in printed


def test_a_table_is_the_stream_and_peers_play_it_too(table, tmp_path, capsys):
    pytest.importorskip("skactiveml")
    pytest.importorskip("river")
    chosen = ("--label", "kind", "--methods", "osamd-preset,paa", "--out", str(tmp_path / "out"))
    assert labels(table, *chosen, *QUICK) == 0
    content = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert content["stream"] == "table.csv"
    assert content["rounds"] == 150
    assert list(content["methods"]) == ["osamd-preset", "paa", *peers.PEERS]
    assert content["left_out"] == {}
    for name in peers.PEERS:
        curve = content["methods"][name]
        assert curve["version"]
        assert all(point["accuracy"]["mean"] > 0.5 for point in curve["points"]), name
    assert "River entropy sampler" in capsys.readouterr().out


def test_a_missing_peer_is_left_out_and_named(tmp_path, capsys, monkeypatch):
    missing = {name: peer._replace(module="no_such_module") for name, peer in peers.PEERS.items()}
    monkeypatch.setattr("osamd.prequential.labels.PEERS", missing)
    assert labels("two-point", *QUICK, "--methods", "osamd-preset", "--out", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "Left out, since it is not installed: scikit-activeml" in printed
    assert "Left out, since it is not installed: river" in printed
    content = json.loads((tmp_path / "labels.json").read_text())
    assert list(content["methods"]) == ["osamd-preset"]
    assert content["left_out"]["river-entropy"] == "river"


def test_the_same_seeds_give_the_same_curve():
    settings = {"budgets": ["10%"], "seeds": 2, "rounds": 100, "warmup": 40, "peers": False, "workers": 1}
    assert label_curve("gaussian-flip", **settings) == label_curve("gaussian-flip", **settings)


@pytest.mark.parametrize("stream", STREAMS)
def test_every_stream_by_name_can_be_played(stream):
    score = played(LabelRun(stream, 120, 40, "osamd-preset", 0.1, 0))
    assert 0.0 < score.accuracy <= 1.0
    assert 0.0 < score.labels <= 0.1


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_learns_the_source_and_repeats_itself(name):
    pytest.importorskip(peers.PEERS[name].module)
    generator = np.random.default_rng(1)
    y = generator.integers(0, 2, 140)
    x = generator.normal(size=(140, 2)) + 6.0 * y[:, None]
    rows = peers.PeerRows((x[:40], y[:40]), (x[40:], y[40:]), 2, peers.TABLE_STEP)
    score = peers.PEERS[name].play(rows, 0.1, 0)
    assert score.accuracy > 0.95
    assert score == peers.PEERS[name].play(rows, 0.1, 0)


@pytest.mark.parametrize("name", ["skactiveml-variable-uncertainty", "skactiveml-split", "skactiveml-split-refitted"])
def test_a_peer_learns_a_class_that_its_source_does_not_hold(name):
    pytest.importorskip("skactiveml")
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 200)
    x = generator.normal(size=(200, 2)) + 4.0 * np.stack([y == 1, y == 2], axis=1)
    first = y[:60] < 2
    rows = peers.PeerRows((x[:60][first], y[:60][first]), (x[60:], y[60:]), 3, peers.TABLE_STEP)
    assert peers.PEERS[name].play(rows, 0.2, 0).accuracy > 0.8


def blobs(rounds):
    """Three classes around three corners, and no source."""
    generator = np.random.default_rng(2)
    y = generator.integers(0, 3, rounds)
    x = generator.normal(size=(rounds, 2)) + 6.0 * np.stack([y == 1, y == 2], axis=1)
    return peers.PeerRows((x[:0], y[:0]), (x, y), 3, peers.TABLE_STEP)


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_learns_from_nothing_and_if_strict_keeps_the_budget_at_every_round(name):
    pytest.importorskip(peers.PEERS[name].module)
    rows = blobs(300)
    assert peers.PEERS[name].play(rows, 0.2, 0).accuracy > 0.6
    x, y = rows.stream
    for rounds in (4, 5, 10, 40, 100):  # the same queries as in a longer run, so that this is the promise
        start = rows._replace(stream=(x[:rounds], y[:rounds]))
        assert peers.PEERS[name].play(start, 0.2, 0, strict=True).labels <= 0.2


def test_a_refitted_model_is_the_fit_to_all_labels_whatever_their_order():
    pytest.importorskip("skactiveml")
    refitted, by_steps = peers.PEERS["skactiveml-random-refitted"], peers.PEERS["skactiveml-random"]
    rows = blobs(200)
    x, y = rows.stream
    one = rows._replace(source=(x[:50], y[:50]), stream=(x[50:], y[50:]))
    other = one._replace(source=(x[:50][::-1], y[:50][::-1]))
    assert refitted.play(one, 0.1, 0) == refitted.play(other, 0.1, 0)
    assert refitted.play(one, 0.1, 0).labels == by_steps.play(one, 0.1, 0).labels


def test_refitted_peers_play_on_tables_alone():
    refitted = {name for name, peer in peers.PEERS.items() if peer.tables_only}
    assert refitted == {name for name in peers.PEERS if name.endswith("-refitted")}
    assert len(refitted) == 3
    for name in peers.PEERS:
        pytest.importorskip(peers.PEERS[name].module)
    settings = {"budgets": ["10%"], "methods": ["osamd-preset"], "seeds": 1, "rounds": 60, "warmup": 40, "workers": 1}
    found = label_curve("rotating-gaussian", **settings)
    assert {curve.name for curve in found.curves} == {"osamd-preset", *peers.PEERS} - refitted
    assert found.left_out == {}


def test_rows_are_scaled_by_what_came_before_them():
    x = np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0], [9.0, 5.0]])
    rows = peers.PeerRows((x[:2], np.array([0, 1])), (x[2:], np.array([0, 1])), 2, 1.0)
    even = peers.scaled(rows)
    assert np.allclose(even.source[0], [[-1.0, 0.0], [1.0, 0.0]])
    assert np.allclose(even.stream[0][:, 0], [0.0, (9.0 - 3.0) / np.std([0.0, 2.0, 1.0, 9.0])])
    assert rows.step == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rotating-gausian",), "Did you mean 'rotating-gaussian'?"),
        (("rotating-gaussian", "--label", "y"), "leave out --label"),
        (("rotating-gaussian", "--budgets", "150%"), "`--budgets 150%`"),
        (("rotating-gaussian", "--budgets", ","), "name at least one share"),
        (("rotating-gaussian", "--budgets", "1%", "--rounds", "50"), "that is less than one label"),
        (("rotating-gaussian", "--methods", "osmad"), "Did you mean 'osamd'?"),
        (("rotating-gaussian", "--methods", "omd-all"), "that keeps a budget"),
        (("rotating-gaussian", "--warmup", "3"), "at least 20 labelled samples"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(arguments, words, tmp_path, capsys):
    assert labels(*arguments, "--out", str(tmp_path / "new")) == 2
    assert words in refusal(capsys)
    assert not (tmp_path / "new").exists()


def test_a_table_without_its_label_or_warm_up_is_refused(table, tmp_path, capsys):
    out = ("--out", str(tmp_path / "new"))
    assert labels(table, *out) == 2
    assert "needs --label, the column that holds the class" in refusal(capsys)
    assert labels(table, "--label", "kin", *out) == 2
    assert "Did you mean 'kind'?" in refusal(capsys)
    assert labels(table, "--label", "kind", "--warmup", "0", *out) == 2
    assert "a warm-up of 1 or more" in refusal(capsys)
