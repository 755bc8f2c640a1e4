"""The command: what it writes, and how it refuses."""

import errno
import json
import os
import subprocess
import sys

import pytest

import osamd
from osamd.cli.app import main
from osamd.paper.methods import METHODS


def run(*arguments):
    return main(list(arguments))


QUICK = ("reproduce", "rotating-gaussian", "--methods", "omd-all", "--seeds", "2", "--workers", "1")


@pytest.fixture
def no_work(monkeypatch):
    """Fail if any run begins."""
    from osamd.reproduce import rotating_gaussian, theory

    def begun(*arguments, **options):
        raise AssertionError("a run began")

    monkeypatch.setattr(rotating_gaussian, "run_many", begun)
    monkeypatch.setattr(theory, "run_many", begun)


def refusal(capsys):
    """The one sentence on stderr."""
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.endswith(".\n")
    assert "Wrote" not in captured.out
    return captured.err


def test_reproduce_writes_the_results_table_and_figure(tmp_path, capsys):
    assert run("reproduce", "rotating-gaussian", "--seeds", "2", "--workers", "1", "--out", str(tmp_path)) == 0
    assert sorted(os.listdir(tmp_path)) == ["figure2a.png", "figure2a.svg", "results.json"]
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["stream"] == "rotating-gaussian"
    assert content["rounds"] == 2000
    assert content["seeds"] == 2
    assert content["settings"]["sigma"] == 0.35
    assert "rounds" not in content["settings"]
    assert list(content["methods"]) == list(content["paper"]) == list(METHODS)
    for name, measured in content["methods"].items():
        for quantity in ("accuracy", "labels", "pseudolabel_errors", "regret"):
            assert set(measured[quantity]) == {"mean", "half_width_90"}
        assert 0.9 < measured["accuracy"]["mean"] <= 1.0
        assert set(content["paper"][name]) == set(measured)
    assert content["paper"]["osamd"]["accuracy"] == {"mean": 0.989, "half_width_90": 0.002}
    printed = capsys.readouterr().out
    assert "OSAMD w/o active query" in printed
    assert "6 accuracies lie within" in printed
    for name in os.listdir(tmp_path):
        assert str(tmp_path / name) in printed


def test_the_preset_stands_beside_the_papers_methods_with_its_labels_and_without_a_regret(tmp_path, capsys):
    chosen = ("--methods", "osamd-preset,omd-all", "--budget", "2%", "--seeds", "2", "--workers", "1")
    assert run("reproduce", "rotating-gaussian", *chosen, "--out", str(tmp_path)) == 0
    content = json.loads((tmp_path / "results.json").read_text())
    assert list(content["methods"]) == ["omd-all", "osamd-preset"]
    assert list(content["paper"]) == ["omd-all"]
    assert content["settings"]["preset_budget"] == 0.02
    measured = content["methods"]["osamd-preset"]
    assert measured["accuracy"]["mean"] > 0.98
    assert 0.01 < measured["labels"]["mean"] <= 0.02
    assert measured["regret"] is None
    printed = capsys.readouterr().out
    assert "OSAMD preset" in printed
    assert "1 of 1 accuracies lie within" in printed
    assert (tmp_path / "figure2a.png").exists()


def test_the_preset_alone_has_a_table_and_no_figure_of_regret(tmp_path, capsys):
    chosen = ("--methods", "osamd-preset", "--seeds", "1", "--workers", "1")
    assert run("reproduce", "rotating-gaussian", *chosen, "--out", str(tmp_path)) == 0
    assert os.listdir(tmp_path) == ["results.json"]
    assert json.loads((tmp_path / "results.json").read_text())["settings"]["preset_budget"] == 0.05
    assert "lie within" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rotating-gaussian", "--budget", "2%"), "leave it out"),
        (("rotating-gaussian", "--methods", "paa", "--budget", "2%"), "leave it out"),
        (("rotating-gaussian", "--methods", "osamd-preset", "--budget", "200%"), "`--budget 200%`"),
        (("figure3", "--methods", "osamd-preset"), "osamd labels rotating-gaussian"),
        (("cover-type", "--methods", "osamd", "--budget", "2%"), "leave it out"),
    ],
)
def test_a_preset_or_a_budget_of_no_use_is_refused(arguments, words, capsys, no_work):
    assert run("reproduce", *arguments) == 2
    assert words in refusal(capsys)


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


def test_one_seed_has_no_interval_and_no_verdict(tmp_path, capsys):
    arguments = ("reproduce", "rotating-gaussian", "--methods", "omd-all,paa", "--seeds", "1", "--workers", "1")
    assert run(*arguments, "--out", str(tmp_path)) == 0
    measured = json.loads((tmp_path / "results.json").read_text())["methods"]
    assert {mean["half_width_90"] for summary in measured.values() for mean in summary.values()} == {None}
    printed = capsys.readouterr().out
    assert "Rotating Gaussian, 1 seed\n" in printed
    assert "lie within" not in printed
    ours = next(line for line in printed.splitlines() if "PAA" in line).split()
    assert ours.count("±") == 2  # both are the paper's


def test_theory_of_one_seed_has_no_intervals(tmp_path, capsys):
    assert run("theory", "--seeds", "1", "--horizons", "200,400", "--workers", "1", "--out", str(tmp_path)) == 0
    rows = json.loads((tmp_path / "theory.json").read_text())["horizons"]
    assert [row["regret"]["half_width_90"] for row in rows] == [None, None]
    assert "±" not in capsys.readouterr().out


def test_an_unknown_method_is_refused_with_the_nearest_name_before_anything_is_written(tmp_path, capsys):
    out = tmp_path / "new"
    assert run("reproduce", "rotating-gaussian", "--methods", "osamd-no-self", "--out", str(out)) == 2
    assert "Did you mean 'osamd-no-self-adaptation'?" in refusal(capsys)
    assert not out.exists()


@pytest.mark.parametrize("methods", ["", ",", " , "])
def test_no_method_at_all_is_refused_with_the_known_names(methods, capsys):
    assert run("reproduce", "rotating-gaussian", "--methods", methods) == 2
    assert ", ".join(METHODS) in refusal(capsys)


def test_an_unwritable_folder_is_refused_before_any_work(tmp_path, capsys, no_work):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run("reproduce", "rotating-gaussian", "--out", str(blocked / "under")) == 2
    assert "name another folder" in refusal(capsys)


def test_a_folder_in_the_way_of_a_file_is_refused_before_any_work(tmp_path, capsys, no_work):
    (tmp_path / "results.json").mkdir()
    assert run("reproduce", "rotating-gaussian", "--out", str(tmp_path)) == 2
    assert "results.json is a folder; move it away" in refusal(capsys)
    assert os.listdir(tmp_path) == ["results.json"]


def test_an_empty_folder_name_is_refused(capsys):
    for command in (("theory",), ("reproduce", "figure3")):
        assert run(*command, "--out", "") == 2
        assert "name a folder" in refusal(capsys)


def test_missing_matplotlib_is_found_before_any_work(tmp_path, capsys, monkeypatch, no_work):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for command in (("theory",), ("reproduce", "figure3")):
        assert run(*command, "--out", str(tmp_path / "new")) == 2
        assert "pip install 'osamd[plot]'" in refusal(capsys)
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_a_sentence_and_leaves_older_files_as_they_were(tmp_path, capsys, monkeypatch):
    from matplotlib.figure import Figure

    def full(self, path, **options):
        path.write_text("half a fig")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    (tmp_path / "results.json").write_text("older")
    assert run(*QUICK, "--out", str(tmp_path)) == 2
    captured = capsys.readouterr()
    assert "figure2a.png (No space left on device); make room" in captured.err
    assert captured.err.count("\n") == 1
    assert "OMD (all)" in captured.out
    assert "Wrote" not in captured.out
    assert sorted(os.listdir(tmp_path)) == [".runs", "results.json"]  # the next try need not play again
    assert (tmp_path / "results.json").read_text() == "older"


def test_an_interrupted_command_says_so_and_leaves_nothing(tmp_path, capsys, monkeypatch):
    from osamd.reproduce import rotating_gaussian

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(rotating_gaussian, "experiment", interrupted)
    assert run(*QUICK, "--out", str(tmp_path / "new" / "deep")) == 130
    assert refusal(capsys) == "osamd: interrupted; no results were written.\n"
    assert os.listdir(tmp_path) == []


def test_an_interrupted_command_goes_on_from_the_runs_that_are_done(tmp_path, capsys, monkeypatch):
    from osamd.reproduce import rotating_gaussian

    def interrupted(task):
        if task.seed == 1:
            raise KeyboardInterrupt
        return played(task)

    played = rotating_gaussian.run
    interrupted.__module__, interrupted.__qualname__ = played.__module__, played.__qualname__
    monkeypatch.setattr(rotating_gaussian, "run", interrupted)
    assert run(*QUICK, "--out", str(tmp_path)) == 130
    assert f"the same command goes on from {tmp_path / '.runs'}." in capsys.readouterr().err
    assert len(list((tmp_path / ".runs").iterdir())) == 1
    again = []
    monkeypatch.setattr(rotating_gaussian, "run", lambda task: again.append(task) or played(task))
    monkeypatch.setattr(rotating_gaussian.run, "__qualname__", "run")
    monkeypatch.setattr(rotating_gaussian.run, "__module__", played.__module__)
    assert run(*QUICK, "--out", str(tmp_path)) == 0
    assert [task.seed for task in again] == [1]
    assert sorted(os.listdir(tmp_path)) == ["figure2a.png", "figure2a.svg", "results.json"]


def test_a_reader_that_stops_early_does_not_take_the_files_away(tmp_path):
    command = [sys.executable, "-m", "osamd", *QUICK, "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert sorted(os.listdir(tmp_path)) == ["figure2a.png", "figure2a.svg", "results.json"]


@pytest.mark.parametrize("horizons", ["1000", "a,b", "1,5", ""])
def test_bad_horizons_are_refused(horizons, tmp_path, capsys):
    assert run("theory", "--horizons", horizons, "--out", str(tmp_path / "new")) == 2
    assert "give at least two whole numbers" in refusal(capsys)
    assert not (tmp_path / "new").exists()


def test_a_horizon_beyond_memory_is_refused(capsys):
    assert run("theory", "--horizons", "100000000000,2") == 2
    assert "at most 10000000 rounds" in refusal(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reproduce",), "osamd reproduce: Missing argument"),
        (("reproduce", "rotating-gausian"), "Did you mean 'rotating-gaussian'?"),
        (("reproduce", "rotating-gaussian", "--seeds", "0"), "greater than or equal to 1"),
        (("reproduce", "rotating-gaussian", "--seed", "3"), "--seeds"),
        (("theory", "--horizon", "3"), "(try osamd theory --help)"),
        (("theory", "--out"), "requires an argument"),
        (("teory",), "'theory'"),
    ],
)
def test_wrong_usage_is_one_sentence_that_says_what_is_right(arguments, words, capsys):
    assert run(*arguments) == 2
    assert words in refusal(capsys)


def test_the_version_is_the_packages(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"osamd {osamd.__version__}\n"


def test_the_command_alone_shows_its_help(capsys):
    assert run() == 2
    captured = capsys.readouterr()
    assert "reproduce" in captured.out + captured.err


@pytest.mark.parametrize("command", [(), ("reproduce",), ("theory",)])
def test_every_command_has_help_worth_reading(command, capsys):
    assert run(*command, "--help") == 0
    assert len(capsys.readouterr().out.split()) > 40


def test_help_imports_neither_numpy_nor_matplotlib():
    script = (
        "import sys, osamd.cli.app; print([m for m in ('numpy', 'scipy', 'matplotlib', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
