"""Runs and learners in a real MLflow."""

import json
import os

import numpy as np
import pytest

import osamd
from osamd.adapters import mlflow as door
from osamd.cli.app import main
from osamd.errors import InputError
from osamd.streams import MachineTable, overlapping_gaussians, rotating_gaussian

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip("mlflow", reason="MLflow is not installed: make test-doors has it")
    monkeypatch.chdir(tmp_path)
    found.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    return found


STREAMS = {
    "rotating": (rotating_gaussian(2000), None),
    "machine": (MachineTable(2000), ["fine", "worn", "broken"]),
    **{f"gaussians-{k}": (overlapping_gaussians(2000, classes=k, features=5), None) for k in range(2, 11)},
}


@pytest.mark.parametrize("name", STREAMS)
def test_1000_of_1000_decisions_come_back(name, mlflow, tmp_path):
    import pandas

    stream, names = STREAMS[name]
    names = (names or [f"class {i}" for i in range(len(stream.classes))])[: len(stream.classes)]
    x, y = stream.sample(0)
    columns = [f"sensor {i}" for i in range(x.shape[1])]
    learner = osamd.OSAMD(features=columns if name != "machine" else x.shape[1], classes=names, budget=0.1)
    with mlflow.start_run():
        for row, label in zip(x[:1000], y[:1000].tolist(), strict=True):
            decision = learner.ask(row)
            learner.tell(decision, names[label] if decision.query else None)
        logged = door.log_model(learner)
    model = mlflow.pyfunc.load_model(logged.model_uri)
    own = [learner.peek(row) for row in x[1000:]]
    given = x[1000:] if name == "machine" else pandas.DataFrame(x[1000:], columns=columns)[columns[::-1]]
    found = model.predict(given)
    assert found["label"].tolist() == [decision.label for decision in own]
    shares = found[[f"probability_{one}" for one in names]].to_numpy()
    assert shares.tolist() == [list(decision.probabilities.values()) for decision in own]
    again = door.load_learner(logged.model_uri)
    assert again.ask(x[0]).margin == learner.copy().ask(x[0]).margin
    stored = [file for _, _, files in os.walk(tmp_path / "mlruns") for file in files]
    assert "learner.osamd" in stored
    assert not [file for file in stored if file.endswith((".pkl", ".pickle"))]


def test_a_run_of_the_command_is_logged_with_its_curves_and_files(mlflow, tmp_path, capsys):
    x, y = rotating_gaussian(600).sample(0)
    lines = [f"{a},{b},{'far' if label else 'near'}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["east,north,state", *lines]))
    assert main(["run", "table.csv", "--label", "state", "--budget", "10%", "--warmup", "100", "--out", "found"]) == 0
    with mlflow.start_run() as run:
        door.log_run("found")
    content = json.loads((tmp_path / "found" / "results.json").read_text())
    client = mlflow.MlflowClient()
    logged = client.get_run(run.info.run_id).data
    assert logged.params["method"] == "osamd-preset"
    assert logged.params["budget"] == str(content["settings"]["budget"])
    accuracy = content["methods"]["osamd-preset"]["accuracy"]["mean"]
    assert logged.metrics["methods.osamd-preset.accuracy.mean"] == accuracy
    history = client.get_metric_history(run.info.run_id, "curve.accuracy")
    assert [point.step for point in history] == content["curve"]["round"]
    assert [point.value for point in history] == content["curve"]["accuracy"]
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"report.html", "results.json"}


def test_a_loop_of_ones_own_logs_its_progress(mlflow):
    stream = rotating_gaussian(900)
    learner = osamd.OSAMD.from_source(*stream.source(100, 0), budget=0.2)
    with mlflow.start_run() as run:
        for row, label in zip(*stream.sample(0), strict=True):
            decision = learner.ask(row)
            learner.tell(decision, int(label) if decision.query else None)
            if learner.rounds % 300 == 0:
                door.log_progress(learner)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "accuracy.value")
    assert [point.step for point in history] == [300, 600, 900]
    assert history[-1].value == learner.accuracy().value


def test_wrong_things_are_refused_in_a_sentence(mlflow, tmp_path):
    with pytest.raises(InputError, match=r"no results.json of osamd run"):
        door.log_run(tmp_path)
    with pytest.raises(InputError, match=r"osamd.OSAMD"):
        door.log_model(np.zeros(3))


def test_a_missing_mlflow_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r'it needs MLflow; run pip install "osamd\[mlflow\]"'):
        door.log_progress(osamd.OSAMD(features=2))
