"""The command that measures the preset on hard streams."""

import json

import numpy as np
import pytest

from osamd.cli import main
from osamd.reproduce import robustness


def test_every_learner_is_measured_on_every_stream(tmp_path, capsys):
    few = ["robustness", "--seeds", "2", "--rounds", "400", "--budget", "10%", "--workers", "1"]
    assert main([*few, "--out", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "robustness.json").read_text())
    assert (content["rounds"], content["seeds"], content["budget"]) == (400, 2, 0.1)
    assert list(content["streams"]) == list(robustness.STREAMS)
    for stream in content["streams"].values():
        assert list(stream["learners"]) == list(robustness.LEARNERS)
        for name, found in stream["learners"].items():
            assert 0.0 < found["accuracy"]["mean"] <= 1.0
            assert found["labels"]["mean"] == 1.0 if name.startswith("omd-all") else found["labels"]["mean"] <= 0.1
            assert len(found["accuracy_by_class"]) == 2
            assert [one["change"] for one in found["recovery"]] == stream["changes"]
    changes = {name: stream["changes"] for name, stream in content["streams"].items() if stream["changes"]}
    assert changes == {
        "flip": [200],
        "recurring": [100, 200, 300],
        "gradual": [250],
        "noise-flip": [200],
        "irrelevant-flip": [200],
    }
    printed = capsys.readouterr().out
    for title, _ in (*robustness.STREAMS.values(), *robustness.LEARNERS.values()):
        assert title in printed
    assert str(tmp_path / "robustness.json") in printed


def test_accuracy_is_against_the_truth_and_not_against_the_noise():
    found = robustness.run(robustness.Task("noise", "osamd-preset", 0, 2000, 0.05))
    assert found.right.mean() > 0.95  # no more than 0.9 of the labels that are told are true


def test_the_preset_hardly_knows_units():
    one, other = (
        robustness.run(robustness.Task(name, "osamd-preset", 0, 2000, 0.05)) for name in ("rotation", "unscaled")
    )
    assert np.mean(one.right != other.right) < 0.005


@pytest.mark.parametrize(
    ("options", "words"), [(("--budget", "0"), "as in --budget 5%"), (("--rounds", "399"), "--rounds")]
)
def test_a_bad_option_is_one_sentence_before_any_work(options, words, capsys, tmp_path):
    assert main(["robustness", *options, "--out", str(tmp_path / "new")]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_the_accuracy_of_a_class_is_that_of_its_rounds():
    one = robustness.Run(np.array([True, False, True]), np.zeros(3, dtype=bool), np.array([0, 0, 1]))
    assert [one.accuracy_of(i) for i in range(3)] == [0.5, 1.0, 1.0]
