"""The command: what it writes, and how it refuses."""

import json
import os
import subprocess
import sys

import pytest

from osamd.cli import main
from osamd.methods import METHODS


def run(*arguments):
    """Exit code; typer ends with SystemExit."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_reproduce_writes_the_results_table_and_figure(tmp_path, capsys):
    assert run("reproduce", "rotating-gaussian", "--seeds", "2", "--workers", "1", "--out", str(tmp_path)) == 0
    assert sorted(os.listdir(tmp_path)) == ["figure2a.png", "figure2a.svg", "results.json"]
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["stream"] == "rotating-gaussian"
    assert content["rounds"] == 2000
    assert content["seeds"] == 2
    assert content["settings"]["sigma"] == 0.35
    assert list(content["methods"]) == list(content["paper"]) == list(METHODS)
    for name, measured in content["methods"].items():
        for quantity in ("accuracy", "labels", "pseudolabel_errors", "regret"):
            assert set(measured[quantity]) == {"mean", "half_width_90"}
        assert 0.9 < measured["accuracy"]["mean"] <= 1.0
        assert set(content["paper"][name]) == set(measured)
    assert content["paper"]["osamd"]["accuracy"] == {"mean": 0.989, "half_width_90": 0.002}
    printed = capsys.readouterr().out
    assert "OSAMD w/o active query" in printed
    for name in os.listdir(tmp_path):
        assert str(tmp_path / name) in printed


def test_workers_do_not_change_the_results(tmp_path):
    for workers in ("1", "2"):
        out = str(tmp_path / workers)
        chosen = ("--methods", "omd-partial,paa", "--seeds", "2", "--workers", workers)
        assert run("reproduce", "rotating-gaussian", *chosen, "--out", out) == 0
    one, two = ((tmp_path / workers / "results.json").read_bytes() for workers in ("1", "2"))
    assert one == two
    assert list(json.loads(one)["methods"]) == ["paa", "omd-partial"]


def test_figure3_sweeps_sigma(tmp_path, monkeypatch):
    from osamd.reproduce import rotating_gaussian

    monkeypatch.setattr(rotating_gaussian, "SIGMAS", (0.1, 0.35))
    chosen = ("--methods", "paa", "--methods", "omd-all", "--seeds", "2", "--workers", "1")
    assert run("reproduce", "figure3", *chosen, "--out", str(tmp_path)) == 0
    curve = json.loads((tmp_path / "results.json").read_text())["curve"]
    assert [point["sigma"] for point in curve["paa"]] == [0.1, 0.35]
    assert curve["paa"][0]["labels"]["mean"] < curve["paa"][1]["labels"]["mean"]
    assert curve["omd-all"][0]["accuracy"] == curve["omd-all"][1]["accuracy"]
    assert (tmp_path / "figure3.svg").exists()


def test_theory_writes_bounds_beside_what_was_measured(tmp_path, capsys):
    assert run("theory", "--seeds", "2", "--horizons", "200,400", "--workers", "1", "--out", str(tmp_path)) == 0
    content = json.loads((tmp_path / "theory.json").read_text())
    assert [row["rounds"] for row in content["horizons"]] == [200, 400]
    for row in content["horizons"]:
        assert row["regret"]["mean"] < row["theorem_1"]
        assert row["pseudolabel_errors"]["mean"] < row["lemma_1"]
    assert "Fitted exponent" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["theory.json", "theory.png", "theory.svg"]


def test_an_unknown_method_is_refused_with_the_nearest_name_before_anything_is_written(tmp_path, capsys):
    out = tmp_path / "new"
    assert run("reproduce", "rotating-gaussian", "--methods", "osamd-no-self", "--out", str(out)) == 2
    assert "Did you mean 'osamd-no-self-adaptation'?" in capsys.readouterr().err
    assert not out.exists()


def test_an_unwritable_folder_is_refused_before_any_work(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run("reproduce", "rotating-gaussian", "--out", str(blocked / "under")) == 2
    error = capsys.readouterr().err
    assert "name a folder you may write" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("horizons", ["1000", "a,b", "1,5", ""])
def test_bad_horizons_are_refused(horizons, tmp_path, capsys):
    assert run("theory", "--horizons", horizons, "--out", str(tmp_path / "new")) == 2
    assert "give at least two whole numbers" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reproduce", "rotating-mnistt"), "rotating-gaussian"),
        (("reproduce", "rotating-gaussian", "--seeds", "0"), "greater than or equal to 1"),
        (("reproduce", "rotating-gaussian", "--seed", "3"), "--seeds"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_right(arguments, words, capsys):
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", [(), ("reproduce",), ("theory",)])
def test_every_command_has_help_worth_reading(command, capsys):
    assert run(*command, "--help") == 0
    assert len(capsys.readouterr().out.split()) > 40


def test_help_imports_neither_numpy_nor_matplotlib():
    script = "import sys, osamd.cli; print([m for m in ('numpy', 'scipy', 'matplotlib', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
