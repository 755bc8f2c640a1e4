"""The commands of the service: making its folder, serving it, tokens, and how each refuses."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import numpy as np
import pytest
from http_cases import until

import osamd
from osamd.cli import service as commands
from osamd.cli.app import main
from osamd.errors import InputError
from osamd.service.folder import open_state
from osamd.service.log import Log

HEADER = "seen,temperature,vibration,line,night,state"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OSAMD_DATABASE", raising=False)


@pytest.fixture
def table(tmp_path):
    """A table with dates, numbers of which some are missing, categories, true and false, and the class."""
    rng = np.random.default_rng(0)
    lines = [HEADER]
    for i in range(300):
        faulty = rng.random() < 0.4
        temperature = "" if i % 20 == 3 else f"{rng.normal(20 + 6 * faulty, 2.0):.2f}"
        vibration = f"{rng.normal(1 + 2 * faulty, 0.7):.2f}"
        line, night = rng.choice(["a", "b", ""]), rng.choice(["true", "false"])
        state = "faulty" if faulty else "good"
        lines.append(f"2024-03-{1 + i // 20:02d} {i % 24:02d}:00,{temperature},{vibration},{line},{night},{state}")
    place = tmp_path / "pumps.csv"
    place.write_text("\n".join(lines) + "\n")
    return place


def refused(capsys, *arguments):
    """The one sentence of a command that is refused with 2."""
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("osamd")
    assert captured.err.endswith((".\n", "?\n"))
    return captured.err


def saved(learner, name="learner.osamd"):
    learner.save(name)
    return name


def linear(**settings):
    return osamd.OSAMD(features=["age", "size"], classes=["no", "yes"], **settings)


class Serving:
    """`osamd serve` in a process of its own, at a port of the system's choice."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "osamd", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.told = self.process.stdout.readline()
        assert self.told, self.process.communicate()[1]
        self.url = next(word.rstrip(";,") for word in self.told.split() if word.startswith("http"))
        self.url = self.url.removesuffix("/dashboard")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()

    def end(self, number=signal.SIGINT):
        """What Ctrl-C does; the exit code, and what was written to stderr."""
        os.kill(self.process.pid, number)
        errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode, errors


# Making the folder


def test_a_table_makes_a_service_that_takes_its_records_as_they_are(table, tmp_path, capsys):
    assert main(["init", "pumps", "--source", "pumps.csv", "--label", "state", "--budget", "5%"]) == 0
    told = capsys.readouterr().out
    assert "10 features, classes faulty, good" in told
    assert "seen (date), temperature (numeric), vibration (numeric), line (categorical), night (boolean)" in told
    assert "Column 'seen': used as hour and weekday." in told
    assert "osamd serve --dir pumps" in told
    state = open_state(tmp_path / "pumps")
    columns = {column.name: column for column in state.schema.columns}
    assert columns["line"].categories == ["(missing)", "a", "b"]
    known = [float(line.split(",")[1]) for line in table.read_text().splitlines()[1:] if line.split(",")[1]]
    assert columns["temperature"].fill == pytest.approx(np.mean(known))
    record = {"seen": "2024-05-06T06:00", "temperature": None, "vibration": 1.5, "line": None, "night": True}
    row = state.schema.row(record)  # six in the morning of a Monday
    assert row[:4].round(12).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert row[4:].tolist() == [columns["temperature"].fill, 1.5, 1.0, 0.0, 0.0, 1.0]
    with pytest.raises(InputError, match="the column 'seen' is 'soon'; give a date or time such as"):
        state.schema.row(record | {"seen": "soon"})
    learner = state.learner()
    assert learner.limits.rate == 0.05
    hot = state.schema.row({"seen": None, "temperature": 30.0, "vibration": 4.0, "line": "a", "night": False})
    cool = state.schema.row({"seen": None, "temperature": 18.0, "vibration": 0.5, "line": "z", "night": False})
    assert (learner.predict(hot), learner.predict(cool)) == ("faulty", "good")


def test_init_says_of_the_columns_what_run_says(tmp_path, capsys):
    generator = np.random.default_rng(0)
    lines = [f"{i};A{i};{generator.normal() + 3 * (i % 2):.3f};{'ab'[i % 2]}\n".replace(".", ",") for i in range(300)]
    (tmp_path / "german.csv").write_text("id;größe;x;y\n" + "".join(lines), encoding="latin-1")
    told = []
    local = ("--label", "y", "--decimal", ",", "--encoding", "latin-1")
    for command in (
        ("run", "german.csv", *local, "--warmup", "100", "--out", "out"),
        ("init", "s", "--source", "german.csv", *local),
    ):
        assert main([*command]) == 0
        said = " ".join(capsys.readouterr().out.split())
        told.append(re.findall(r"Column '.*?\.(?= |$)|To use them .*?\.(?= |$)", said))
    assert told[0] == told[1]
    assert [line.split(" is ")[0] for line in told[0][:-1]] == ["Column 'id'", "Column 'größe'"]
    assert told[0][-1].endswith("--keep 'id,größe'.")
    assert main(["init", "kept", "--source", "german.csv", *local, "--keep", "id"]) == 0
    assert [one.name for one in open_state(tmp_path / "kept").schema.columns] == ["id", "x"]


def test_the_settings_of_the_learner_and_of_the_service_are_those_given(table, tmp_path):
    options = [
        "--budget",
        "10%",
        "--budget-window",
        "500",
        "--max-labels",
        "70",
        "--eta",
        "0.02",
        "--expire-after",
        "40",
    ]
    options += ["--method", "paa", "--title", "Pumps", "--drop", "night,seen", "--categorical", "vibration"]
    assert main(["init", "pumps", "--source", "pumps.csv", "--label", "state", *options]) == 0
    state = open_state(tmp_path / "pumps")
    limits = state.learner().limits
    assert (limits.rate, limits.window, limits.max_labels) == (0.1, 500, 70)
    assert state.learner().method == "paa"
    assert state.config.expire_after == 40
    assert state.schema.title == "Pumps"
    assert [(one.name, one.kind) for one in state.schema.columns][1:2] == [("vibration", "categorical")]
    assert "night" not in [one.name for one in state.schema.columns]


def test_a_table_makes_a_service_of_the_preset(table, capsys):
    assert main(["init", "pumps", "--source", "pumps.csv", "--label", "state"]) == 0
    assert "The learner is OSAMD preset, and asks for at most 5 % of the labels." in capsys.readouterr().out
    learner = open_state(Path("pumps")).learner()
    assert (learner.method, learner.limits.rate) == ("osamd-preset", 0.05)


@pytest.mark.parametrize("given", [("--method", "osamd"), ("--eta", "0.02"), ("--sigma", "2")])
def test_a_method_of_the_paper_is_named_or_meant_by_its_settings(given, table, capsys):
    assert main(["init", "pumps", "--source", "pumps.csv", "--label", "state", *given]) == 0
    assert "The learner is OSAMD, and asks without a limit; --budget 5% would set one." in capsys.readouterr().out
    learner = open_state(Path("pumps")).learner()
    assert (learner.method, learner.limits.rate) == ("osamd", None)
    assert learner._recipe.standardise


def test_a_folder_says_its_method_whatever_the_default_is(table, monkeypatch):
    for method in ("osamd", "osamd-preset"):
        assert main(["init", method, "--source", "pumps.csv", "--label", "state", "--method", method]) == 0
    monkeypatch.setattr("osamd.learner.linear.method_name", lambda method, given: method)  # no default at all
    for method in ("osamd", "osamd-preset"):
        assert open_state(Path(method)).learner().method == method


def test_a_class_that_the_table_does_not_show_yet_can_be_named(table, tmp_path):
    named = ["--classes", "good,faulty,lost"]
    assert main(["init", "pumps", "--source", "pumps.csv", "--label", "state", *named]) == 0
    assert open_state(tmp_path / "pumps").learner().classes == ["good", "faulty", "lost"]


def test_a_saved_learner_makes_a_service_with_the_names_of_its_features(tmp_path):
    learner = linear(budget=0.2, expire_after=9)
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(50, 2)):
        decision = learner.ask(x)
        learner.tell(decision, "yes" if x[0] > 0 and decision.query else None)
    assert main(["init", "shop", "--model", saved(learner), "--max-labels", "30"]) == 0
    state = open_state(tmp_path / "shop")
    assert [column.name for column in state.schema.columns] == ["age", "size"]
    assert (state.schema.title, state.config.expire_after) == ("learner", 9)
    assert state.learner().limits.max_labels == 30
    assert state.learner().predict([1.0, 0.0]) == learner.predict([1.0, 0.0])


MODULE = """
    import torch
    from torch import nn

    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))

    def two():
        return nn.Linear(16, 2)

    def nothing():
        raise FileNotFoundError("weights.pt is not here")
"""
IMAGES = {
    "title": "Shapes",
    "image": {"height": 4, "width": 4, "low": 0, "high": 255},
    "classes": [{"name": 0, "title": "Zero"}, {"name": 1}, {"name": 2}],
}
STEPS = ("--eta", "0.01", "--sigma", "0.1")


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A module to import by its name, unlike that of any other test, and the schema of its samples."""
    pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"module_of_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "images.json").write_text(json.dumps(IMAGES))
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(("steps", "method"), [((), "osamd-preset"), (STEPS, "osamd")])
def test_a_torch_module_and_a_schema_make_a_service(steps, method, network, tmp_path):
    options = ["--schema", "images.json", "--shape", "1,4,4", "--budget", "10%", *steps]
    assert main(["init", "shapes", "--module", f"{network}:network", *options, "--title", "Mine"]) == 0
    state = open_state(tmp_path / "shapes")
    assert (state.schema.title, state.schema.features, state.config.shape) == ("Mine", 16, [1, 4, 4])
    learner = state.learner()
    assert learner.method == method
    decision = learner.ask(state.samples(state.schema.row([0, 255] * 8)[None])[0])
    assert decision.label in (0, 1, 2)


def test_a_saved_network_goes_on_in_a_service(network, tmp_path):
    from importlib import import_module

    from osamd.learner.network import NetworkOSAMD

    learner = NetworkOSAMD(import_module(network).network(), classes=[0, 1, 2], eta=0.05, sigma=5.0)
    x = np.linspace(0, 1, 16)
    before = learner.ask(x)
    learner.tell(before, 2)
    options = ["--module", f"{network}:network", "--schema", "images.json", "--budget", "50%"]
    assert main(["init", "shapes", "--model", saved(learner), *options]) == 0
    again = open_state(tmp_path / "shapes").learner()
    assert again.rounds == 1
    assert again.limits.rate == 0.5
    assert again.ask(x).probabilities == learner.ask(x).probabilities


# What is refused


def test_init_refuses_with_one_sentence_that_names_the_remedy(table, tmp_path, capsys):
    from_table = ("init", "pumps", "--source", "pumps.csv")
    assert "give --source with --label, --model, or --module with --schema" in refused(capsys, "init", "pumps")
    assert "needs --label, the column that holds the class. Its columns: " in refused(capsys, *from_table)
    assert "there is no such file" in refused(capsys, "init", "pumps", "--source", "pump.csv", "--label", "state")
    assert "Did you mean 'state'? Its columns: 'state', 'seen', 'temperature'" in refused(
        capsys, *from_table, "--label", "stat"
    )
    labelled = (*from_table, "--label", "state")
    assert "as in --budget 5%" in refused(capsys, *labelled, "--budget", "500%")
    assert "--budget-window" in refused(capsys, *labelled, "--budget-window", "0")
    assert "Known: osamd, paa" in refused(capsys, *labelled, "--method", "sgd")
    assert "eta must be positive" in refused(capsys, *labelled, "--eta", "-1")
    assert "'faulty' is not one of the classes" in refused(capsys, *labelled, "--classes", "good,bad")
    assert "--shape has no effect here" in refused(capsys, *labelled, "--shape", "1,2")
    assert "--schema has no effect here" in refused(capsys, *labelled, "--schema", "x.json")
    assert "but only from one" in refused(capsys, *labelled, "--model", "x")
    assert "pumps.csv is a file; name a folder" in refused(capsys, "init", "pumps.csv", *labelled[2:])
    empty = tmp_path / "empty.csv"
    empty.write_text(HEADER + "\n2024-01-01,1,2,a,true,\n")
    said = refused(capsys, "init", "pumps", "--source", "empty.csv", "--label", "state")
    assert "a classifier needs two classes" in said
    assert not (tmp_path / "pumps").exists()
    assert main(list(labelled)) == 0
    capsys.readouterr()
    assert "is already a service" in refused(capsys, *labelled)


def test_init_refuses_a_saved_learner_that_does_not_fit(table, capsys, network):
    from osamd.learner.network import NetworkOSAMD

    file = saved(linear())
    assert "no such file" in refused(capsys, "init", "shop", "--model", "none.osamd")
    assert "not saved by osamd" in refused(capsys, "init", "shop", "--model", "pumps.csv")
    assert "--drop has no effect here" in refused(capsys, "init", "shop", "--model", file, "--drop", "age")
    assert "--label has no effect here" in refused(capsys, "init", "shop", "--model", file, "--label", "age")
    assert "give them alike" in refused(capsys, "init", "shop", "--model", file, "--schema", "images.json")
    module = ("--module", f"{network}:network", "--schema", "images.json")
    assert "leave --module out" in refused(capsys, "init", "shop", "--model", file, *module)
    from importlib import import_module

    deep = saved(NetworkOSAMD(import_module(network).network(), eta=0.1, sigma=0.1), "deep.osamd")
    assert "--module PACKAGE:FUNCTION" in refused(capsys, "init", "shop", "--model", deep)
    waiting = linear(sigma=1e9)
    assert waiting.ask([0.0, 0.0]).query
    assert "pending queries" in refused(capsys, "init", "shop", "--model", saved(waiting, "waiting.osamd"))


def test_init_refuses_a_module_that_cannot_be_used(network, tmp_path, capsys):
    base = ("init", "shapes", "--schema", "images.json")
    steps = (*base, *STEPS, "--module")
    assert "give --schema too" in refused(capsys, "init", "shapes", "--module", f"{network}:network", *STEPS)
    for some in (("--eta", "0.1"), ("--sigma", "1"), ("--method", "osamd")):
        assert "give --eta and --sigma" in refused(capsys, *base, "--module", f"{network}:network", *some)
    assert "package.module:function" in refused(capsys, *steps, network)
    assert "install it" in refused(capsys, *steps, "no_such_module:network")
    assert "install it" in refused(capsys, *steps, f"{network}:no_such_function")
    assert "weights.pt is not here); correct it" in refused(capsys, *steps, f"{network}:nothing")
    assert "3 are named, but the module tells 2 apart" in refused(capsys, *steps, f"{network}:two")
    shaped = (*steps, f"{network}:network", "--shape")
    assert "as in 1,28,28" in refused(capsys, *shaped, "four")
    assert "that is 25 numbers, and a sample of the schema has 16" in refused(capsys, *shaped, "1,5,5")
    (tmp_path / "broken_module_of_a_test.py").write_text("def network(:\n")
    assert "SyntaxError" in refused(capsys, *steps, "broken_module_of_a_test:network")
    assert not (tmp_path / "shapes").exists()


CLASSES = [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Invalid JSON"),
        ("[]", "Input should be an object"),
        ({}, "classes: Field required"),
        ({"classes": CLASSES}, "give columns or an image, and not both"),
        ({"classes": CLASSES[:1], "image": {"height": 2, "width": 2}}, "at least 2 items"),
        ({"classes": ["a", "b"], "image": {"height": 2, "width": 2}}, "classes.0: Input should be an object"),
        ({"classes": [*CLASSES, CLASSES[0]], "image": {"height": 2, "width": 2}}, "two classes have the same name"),
        ({"classes": CLASSES, "image": {"height": 2, "width": 2, "low": 1}}, "give two different numbers"),
        ({"classes": CLASSES, "image": {"height": 2, "width": 0}}, "image.width"),
        ({"classes": CLASSES, "columns": [{"name": "x", "kind": "text"}]}, "columns.0.kind"),
        ({"classes": CLASSES, "columns": [{"name": "x", "kind": "categorical"}]}, "give categories"),
        ({"classes": CLASSES, "columns": [{"name": "x", "categories": ["q"]}]}, "give categories"),
        ({"classes": CLASSES, "columns": [{"name": "x"}, {"name": "x"}]}, "two columns have the same name"),
        ({"classes": CLASSES, "columns": [{"name": "x"}], "colour": "red"}, "colour"),
    ],
)
def test_a_schema_that_is_wrong_is_refused_with_the_place(tmp_path, capsys, content, said):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "schema.json").write_text(text)
    assert said in refused(capsys, "init", "shop", "--model", saved(linear()), "--schema", "schema.json")


def test_a_schema_or_a_folder_that_cannot_be_read_is_refused(tmp_path, capsys):
    file = saved(linear())
    assert "cannot be read" in refused(capsys, "init", "shop", "--model", file, "--schema", "none.json")
    assert main(["init", "shop", "--model", file]) == 0
    capsys.readouterr()
    config = tmp_path / "shop" / "service.json"
    config.write_text(config.read_text().replace('"format": 1', '"format": 2'))
    assert "service.json: format: Input should be 1; correct the file" in refused(capsys, "replay", "shop")
    config.write_text("{")
    assert "service.json: " in refused(capsys, "replay", "shop")
    start = tmp_path / "shop" / "start.safetensors"
    config.unlink()
    start.write_bytes(b"")
    for command in (("serve", "--dir", "shop"), ("token", "shop"), ("replay", "shop")):
        assert "shop is not a service; make one with `osamd init shop" in refused(capsys, *command)


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "httptools", "sqlalchemy", "prometheus_client", "httpx"])
def test_a_missing_extra_says_what_to_install(monkeypatch, capsys, missing):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    for name in ("init", "token", "replay"):
        assert f"needs {missing}: pip install 'osamd[service]'" in refused(capsys, name, "shop")
    for name in ("serve", "demo"):
        assert "osamd[service]" in refused(capsys, name)


def test_without_torch_a_module_says_what_to_install(table, monkeypatch, capsys, tmp_path):
    (tmp_path / "images.json").write_text(json.dumps(IMAGES))
    monkeypatch.setitem(sys.modules, "osamd.learner.network", None)
    assert refused(capsys, "init", "shapes", "--module", "a:b", "--schema", "images.json", *STEPS)


# Serving


def test_ctrl_c_ends_the_service_with_a_snapshot_at_the_end_of_its_log_and_it_goes_on_from_there(tmp_path, capsys):
    file = saved(linear(sigma=5.0))
    with Serving("serve", "--dir", "shop", "--model", file) as served:  # which makes the folder
        assert httpx.get(f"{served.url}/v1/schema").json()["title"] == "learner"
        assert served.told == f"osamd serves shop at {served.url} (label: {served.url}/label); stop it with Ctrl-C.\n"
        body = {"samples": [{"features": [float(i), 1.0]} for i in range(40)]}
        decisions = httpx.post(f"{served.url}/v1/samples", json=body).json()["decisions"]
        asked = next(one["round"] for one in decisions if one["query"])
        assert httpx.post(f"{served.url}/v1/labels", json={"round": asked, "label": "yes"}).status_code == 200
        before = httpx.get(f"{served.url}/v1/status").json()
        assert served.end() == (0, "")
    with sqlite3.connect(tmp_path / "shop" / "log.sqlite") as database:
        assert database.execute("SELECT max(seq) FROM snapshots").fetchone() == (before["seq"],)
        assert database.execute("SELECT max(seq) FROM events").fetchone() == (before["seq"],)
    database.close()
    with Serving("serve", "--dir", "shop") as served:
        assert httpx.get(f"{served.url}/v1/status").json() == before
        assert served.end(signal.SIGTERM) == (0, "")
    assert "already has a learner" in refused(capsys, "serve", "--dir", "shop", "--model", file, "--port", "0")


def test_the_learner_can_be_exported_while_the_service_goes_on(tmp_path, capsys):
    saved(linear(budget=0.5))
    with Serving("serve", "--dir", "state", "--model", "learner.osamd") as service:
        for i in range(50):
            httpx.post(f"{service.url}/v1/samples", json={"features": [i % 7, 1.0 + i]}).raise_for_status()
        status = httpx.get(f"{service.url}/v1/status").json()
        assert main(["export", "state", "now.safetensors"]) == 0
        assert "50 rounds" in capsys.readouterr().out
    exported = osamd.OSAMD.load("now.safetensors")
    assert (exported.rounds, exported.asked, len(exported.pending)) == (50, status["asked"], status["pending"])


def test_serve_refuses_what_it_cannot_do(tmp_path, capsys):
    assert main(["init", "shop", "--model", saved(linear())]) == 0
    capsys.readouterr()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert "change --host or --port then" in refused(capsys, "serve", "--dir", "shop", "--port", port)
    assert "--port" in refused(capsys, "serve", "--dir", "shop", "--port", "70000")
    anywhere = ("serve", "--dir", "shop", "--port", "0")
    assert "it has no tokens yet; make some with `osamd token shop" in refused(capsys, *anywhere, "--host", "0.0.0.0")
    assert "cannot listen there" in refused(capsys, *anywhere, "--host", "no.such.host.invalid")
    for url in ("mysql://me:secret@here/shop", "secret", "postgresql://me:secret@here:port/shop"):
        said = refused(capsys, *anywhere, "--database", url)
        assert "give postgresql://USER:PASSWORD@HOST/NAME" in said
        assert "secret" not in said
    nowhere = ("--database", "postgresql://me:secret@127.0.0.1:1/shop")
    said = refused(capsys, *anywhere, *nowhere)
    assert "the log of shop is in shop/log.sqlite" in said
    assert "secret" not in said
    assert main(["init", "other", "--model", "learner.osamd"]) == 0
    capsys.readouterr()
    said = refused(capsys, "serve", "--dir", "other", "--port", "0", *nowhere)
    assert "is it there?" in said
    assert "secret" not in said


def test_two_services_cannot_share_a_folder_and_a_database_belongs_to_one_learner(tmp_path, capsys):
    for name, seed in (("shop", 0), ("other", 1)):
        assert main(["init", name, "--model", saved(linear(seed=seed))]) == 0
    capsys.readouterr()
    log = Log(tmp_path / "shop" / "log.sqlite")
    log.open(open_state(tmp_path / "shop").identity)
    assert "in use by another service" in refused(capsys, "serve", "--dir", "shop", "--port", "0")
    log.close()
    url = f"sqlite:///{tmp_path}/shop/log.sqlite"
    assert "belongs to another learner" in refused(capsys, "serve", "--dir", "other", "--port", "0", "--database", url)


# Tokens


def test_a_token_is_shown_once_listed_by_name_and_revoked(tmp_path, capsys):
    assert main(["init", "shop", "--model", saved(linear())]) == 0
    capsys.readouterr()
    assert main(["token", "shop", "--name", "till"]) == 0
    till = capsys.readouterr().out.strip()
    assert till.startswith("osamd_")
    assert main(["token", "shop", "--name", "anna", "--role", "annotator"]) == 0
    anna = capsys.readouterr().out.strip()
    assert main(["token", "shop"]) == 0
    listed = capsys.readouterr().out
    assert listed.split() == ["anna", "annotator", "till", "client"]
    assert till not in listed
    assert till.encode() not in (tmp_path / "shop" / "log.sqlite").read_bytes()

    with Serving("serve", "--dir", "shop") as served:

        def status(token, path="/v1/status"):
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return httpx.get(served.url + path, headers=headers).status_code

        assert [status(None), status(till), status(anna)] == [401, 200, 200]
        assert [status(till, "/v1/queries"), status(anna, "/v1/queries")] == [403, 200]
        assert main(["token", "shop", "--revoke", "till"]) == 0
        assert capsys.readouterr().out == "Revoked till.\n"
        until(lambda: status(till) == 401, "the revoked token is refused")
        assert status(anna) == 200
    assert "there is no such token" in refused(capsys, "token", "shop", "--revoke", "till")
    assert "a token with this name exists" in refused(capsys, "token", "shop", "--name", "anna")
    assert "give letters, digits" in refused(capsys, "token", "shop", "--name", "an na")
    assert "Known: client, annotator" in refused(capsys, "token", "shop", "--name", "bob", "--role", "boss")


def test_the_database_may_be_named_by_the_environment(tmp_path, monkeypatch, capsys):
    assert main(["init", "shop", "--model", saved(linear())]) == 0
    monkeypatch.setenv("OSAMD_DATABASE", f"sqlite:///{tmp_path}/elsewhere.sqlite")
    assert main(["token", "shop", "--name", "till"]) == 0
    capsys.readouterr()
    assert main(["token", "shop"]) == 0
    assert capsys.readouterr().out == "till  client\n"
    assert not (tmp_path / "shop" / "log.sqlite").exists()


def test_a_database_that_fails_under_a_command_is_told_in_a_sentence(tmp_path, monkeypatch, capsys):
    from osamd.service import auth
    from osamd.service.database import StorageError

    assert main(["init", "shop", "--model", saved(linear())]) == 0
    capsys.readouterr()

    def full(*_):
        raise StorageError("database or disk is full")

    monkeypatch.setattr(auth, "make_token", full)
    assert "(database or disk is full); try again" in refused(capsys, "token", "shop", "--name", "till")
    monkeypatch.setattr(Log, "last", full)
    assert "(database or disk is full); try again" in refused(capsys, "replay", "shop")


def test_every_command_of_the_service_has_help_with_an_example_or_needs_none(capsys):
    for command in commands.COMMANDS:
        assert main([command.__name__.replace("_", "-"), "--help"]) == 0
        told = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert "Example: osamd" in told or command.__name__ == "demo"
        if command.__name__ in ("init", "replay"):
            assert told.count("For the paper's methods:") == 2
        if command.__name__ == "init":
            assert "The default is 5% with osamd-preset, and no limit with the paper's methods." in told
