"""The paper's columns on real data: a prefix of each by the command, on the CPU."""

import copy
import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from osamd.cli.app import main
from osamd.fleet.fleet import net_of
from osamd.paper.methods import METHODS, TeacherStep
from osamd.reporting.terminal import Stages
from osamd.reproduce import deep, networks, readings
from osamd.reproduce.column_fleets import NetworkRun, pretrain
from osamd.reproduce.deep import differences
from osamd.reproduce.search import SPACES, Tried, best, points_of, within_budget
from osamd.reproduce.table_columns import COLUMNS, for_all

DATA = Path(os.environ.get("OSAMD_DATA_DIR") or Path(__file__).parents[2].parent / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (DATA / "mnist").is_dir(), reason=f"the data sets are not in {DATA}; name their folder by OSAMD_DATA_DIR"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The networks that these tests train and the data that they prepare, apart from the user's."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def quick(cache, monkeypatch):
    """One epoch of training."""
    monkeypatch.setenv("OSAMD_CACHE_DIR", str(cache))
    for name, column in COLUMNS.items():
        batch = column.training().batch
        monkeypatch.setitem(COLUMNS, name, replace(column, training=lambda b=batch: networks.Training(1, b)))


@needs_data
@pytest.mark.parametrize(("name", "rounds"), [("rotating-mnist", 12), ("portraits", 8), ("cover-type", 600)])
def test_a_prefix_of_a_column_runs_by_the_command(name, rounds, quick, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["reproduce", name, "--seeds", "2", "--rounds", str(rounds), "--data-dir", str(DATA), "--out", str(out)]
    assert main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert f"the first {rounds} of" in printed
    results = json.loads((out / "results.json").read_text())
    assert (results["stream"], results["rounds"], results["whole_stream"]) == (name, rounds, False)
    assert set(results["methods"]) == set(METHODS) == set(results["paper"])
    for method, summary in results["methods"].items():
        assert set(summary) == {"accuracy", "labels", "pseudolabel_errors", "loss"}
        assert (summary["labels"]["mean"] == 1.0) == (method == "omd-all")
    assert results["stream_facts"]["data_set_rows"] > 20_000
    assert results["settings"]["name"] == "tuned"
    stem = COLUMNS[name].figure
    assert {path.name for path in out.iterdir()} == {"results.json", f"{stem}.png", f"{stem}.svg"}
    assert main([*arguments, "--device", "cpu", "--settings", "paper", "--methods", "osamd"]) == 0
    assert (
        json.loads((out / "results.json").read_text())["settings"]["eta"]
        == COLUMNS[name].settings["paper"]["osamd"].eta
    )


@needs_data
@pytest.mark.parametrize(("name", "rounds"), [("rotating-mnist", 24), ("portraits", 24), ("cover-type", 400)])
def test_the_preset_plays_a_column_within_its_budget(name, rounds, quick, tmp_path, capsys):
    arguments = ["reproduce", name, "--seeds", "1", "--rounds", str(rounds), "--data-dir", str(DATA), "--device", "cpu"]
    assert main([*arguments, "--methods", "osamd,osamd-preset", "--budget", "50%", "--out", str(tmp_path)]) == 0
    assert "with a budget of 50 % of the labels" in capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results["methods"]) == {"osamd", "osamd-preset"}
    assert results["settings"]["preset_budget"] == 0.5
    assert 0.0 < results["methods"]["osamd-preset"]["labels"]["mean"] <= 0.5
    assert results["methods"]["osamd-preset"]["accuracy"]["mean"] > (0.2 if name == "rotating-mnist" else 0.4)
    assert set(results["osamd_minus"]) == {"osamd-preset"}


@needs_data
def test_the_fleet_of_a_column_is_the_runs_one_by_one(quick):
    whole = deep.experiment(COLUMNS["cover-type"], list(METHODS), 2, "shared", rounds=400, device="cpu", data_dir=DATA)
    for method in ("osamd", "omd-all"):
        alone = deep.experiment(COLUMNS["cover-type"], [method], 2, "shared", rounds=400, device="cpu", data_dir=DATA)
        for mine, its in zip(whole.runs[method], alone.runs[method], strict=True):
            assert (mine.accuracy, mine.labels) == (its.accuracy, its.labels)
            np.testing.assert_allclose(mine.loss, its.loss)
    labels = {m: [run.labels for run in runs] for m, runs in whole.runs.items()}
    assert labels["osamd"] == labels["paa"] == labels["osamd-no-self-adaptation"]
    assert whole.runs["osamd"][0].accuracy > 0.5


@needs_data
def test_training_is_seeded_and_kept(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("OSAMD_CACHE_DIR", str(tmp_path / "cache"))  # where nothing is trained yet
    column = COLUMNS["cover-type"]
    stream = column.stream(DATA)
    cpu = torch.device("cpu")
    epochs = []
    told = Stages(lambda stage, total: None, epochs.append)
    first = pretrain(column, stream, [0, 1], cpu, told)
    kept = list((tmp_path / "cache" / "pretrained").iterdir())
    assert len(kept) == 2
    assert epochs == [1, 2]
    again = pretrain(column, stream, [0], cpu, told)
    kept[0].write_bytes(b"damaged")
    kept[1].write_bytes(b"damaged")
    anew = pretrain(column, stream, [0], cpu, told)
    for one, two, three in zip(*(m[0].parameters() for m in (first, again, anew)), strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
    assert not torch.equal(first[0][0].weight, first[1][0].weight)


def test_training_leaves_the_users_generator_alone():
    module = networks.feedforward(4, 2)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    networks._train(
        module,
        networks.Training(1, 8),
        torch.randn(16, 4, generator=torch.Generator().manual_seed(0)),
        torch.zeros(16, dtype=torch.long),
        0,
        torch.device("cpu"),
        None,
    )
    assert torch.equal(expected, torch.rand(2))


def test_differences_are_taken_seed_by_seed_where_both_finished():
    def run(accuracy):
        return NetworkRun(accuracy, 0.1, 0.1, np.zeros(1))

    runs = {
        "osamd": [run(0.9), None, run(0.8)],
        "paa": [run(0.7), run(0.1), run(0.7)],
        "omd-all": [None, run(1.0), None],
    }
    apart = differences(runs)
    assert list(apart) == ["paa"]
    assert apart["paa"].mean == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rotating-mnist", "--settings", "papers"], "Did you mean 'paper'"),
        (["rotating-gaussian", "--rounds", "5"], "only streams of real data"),
        (["figure3", "--settings", "paper"], "only streams of real data"),
        (["cover-type", "--workers", "2"], "not spread over processes"),
        (["cover-type", "--device", "cdua", "--data-dir", str(DATA)], "no such device"),
        (["cover-type", "--data-dir", "nowhere-at-all"], "no such folder"),
        (["covertype"], "Did you mean 'cover-type'"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(arguments, words, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


@needs_data
def test_a_run_that_was_interrupted_goes_on_in_another_process(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("osamd.fleet.play.SECONDS_A_CHECKPOINT", -1.0)
    folder = tmp_path / "checkpoint"
    arguments = {"rounds": 3000, "device": "cpu", "data_dir": DATA}
    whole = deep.experiment(COLUMNS["cover-type"], list(METHODS), 2, **arguments)

    def stop(done):
        if 50 < done < 3000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deep.experiment(
            COLUMNS["cover-type"],
            list(METHODS),
            2,
            checkpoint=folder,
            stages=Stages(lambda stage, total: None, stop),
            **arguments,
        )
    # What a checkpoint is known by must not depend on the process that wrote it.
    code = "from osamd.reproduce import deep; print(deep._identity(['cover-type', {'a': 1}], []))"
    names = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert names == {deep._identity(["cover-type", {"a": 1}], []) + "\n"}
    begun = []
    again = deep.experiment(
        COLUMNS["cover-type"],
        list(METHODS),
        2,
        checkpoint=folder,
        stages=Stages(lambda *_: begun.append(None), begun.append),
        **arguments,
    )
    starts = [done for before, done in itertools.pairwise(begun) if before is None]
    assert max(starts[-2:]) > 0  # of the two fleets, the one that was interrupted does not begin anew
    for method in METHODS:
        for mine, its in zip(whole.runs[method], again.runs[method], strict=True):
            assert (mine.accuracy, mine.labels) == (its.accuracy, its.labels)
            assert np.array_equal(mine.loss, its.loss)


@needs_data
def test_a_teacher_that_stops_takes_the_uniform_methods_of_its_seed_with_it(quick, monkeypatch):
    column = COLUMNS["cover-type"]
    wild = replace(column.settings["tuned"]["osamd"], teacher=TeacherStep(cap=1e38, scale=1e38))
    monkeypatch.setitem(COLUMNS, "cover-type", replace(column, settings={"tuned": for_all(wild)}))
    outcome = deep.experiment(COLUMNS["cover-type"], list(METHODS), 1, rounds=400, device="cpu", data_dir=DATA)
    assert outcome.runs["paa"] == outcome.runs["omd-partial"] == [None]
    assert outcome.runs["omd-all"][0] is not None
    assert any("OMD (partial), seed 0: not run" in sentence for sentence in outcome.stopped)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_tuned_settings_are_what_the_search_chose(name):
    found = json.loads((Path(__file__).parents[2] / "docs" / "search" / f"{name}.json").read_text())
    column, space = COLUMNS[name], SPACES[name]
    teachers, tried = ([Tried(**one) for one in found[part]] for part in ("teachers", "tried"))
    sigmas = within_budget(teachers, found["budget"])
    for method, own in column.settings["tuned"].items():
        first = best(tried, method)
        assert first._asdict() == found["chosen"][method]
        assert (own.eta, own.teacher.scale, own.sigma, own.adaptation.rate) == (
            first.eta,
            first.scale,
            sigmas[first.scale],
            first.inner_rate,
        )
        points = points_of(method, space, sigmas, 0.1)
        assert len(points) == sum(one.method == method for one in tried)  # nothing that was tried is left out
    assert set(column.settings["shared"].values()) == {column.settings["tuned"]["osamd"]}
    assert json.loads(json.dumps(space._asdict())) == found["space"]


@needs_data
@pytest.mark.parametrize("reading", readings.READINGS[1::3])
def test_a_reading_of_the_appendix_is_played_as_it_says(quick, reading):
    column = readings.read("rotating-mnist", reading)
    module, training = column.network(), column.training()
    assert module[0].padding == (reading.padding, reading.padding)
    assert training.initialisation == reading.initialisation
    outcome = deep.experiment(column, list(METHODS), 1, "paper", rounds=3, device="cpu", data_dir=DATA)
    found = readings.cells(outcome)
    assert found.keys() == METHODS.keys()
    table = readings.shown("rotating-mnist", [(reading, found)])
    assert table.rows[0][0] == reading.title
    assert table.rows[-1][1:3] == ["86.8", "84.0"]


def test_the_statistics_of_the_sample_are_those_of_a_module_in_training_mode():
    torch.manual_seed(0)
    module, x = networks.convolutional(28, 10, padding=0), torch.randn(1, 1, 28, 28)
    module[5].running_mean.normal_()
    net = net_of(copy.deepcopy(module).eval(), x, False, "sample")
    module.train()
    module[4].eval()  # the dropout
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 0.0
    ours = net.forward(net.row(module, torch.float32)[None], x)[0]
    torch.testing.assert_close(ours, module(x), rtol=0, atol=1e-4)
