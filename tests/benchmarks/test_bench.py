"""The benchmark: its orchestrator with made-up peers, its judgement, and the C reference against the plain path."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import page, run
from benchmarks.extras import exponent
from benchmarks.reference import WHO as C_REFERENCE
from benchmarks.reference import check, compile_reference, draw
from benchmarks.report import ENTROPY, PARSED, report, targets
from benchmarks.run import OURS, PEERS, PEERS_FOLDER, Peer, bench
from benchmarks.settings import CASES, Case
from osamd.errors import InputError

SMALL = Case("small", 3, 2, 60, 2.5, 20, eta=0.1, sigma=0.2, cap=1.0, loss="hinge")

FAKE = f"""
import sys
sys.path.insert(0, {str(PEERS_FOLDER)!r})
from common import serve

def says(name):
    def prepare(x, y, classes):
        assert x.shape[1] == 3 and classes == 2 and x.flags["C_CONTIGUOUS"]
        print("a library that prints")
        def run():
            with open({{log!r}}, "a") as log:
                log.write(name + "\\n")
            sum(range(20_000))
            return len(y) // 2, len(y) // 4
        return lambda: run
    return prepare

def absent(x, y, classes):
    import a_library_that_is_not_there

def broken(x, y, classes):
    def run():
        raise RuntimeError("it broke")
    return lambda: run

serve({{{{"a": says("a"), "b": says("b"), "absent": absent, "broken": broken}}}}, ("numpy",))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A script with four variants, and the file in which two of them write their names at every pass."""
    script, log = tmp_path / "fake.py", tmp_path / "log"
    script.write_text(FAKE.format(log=str(log)))
    monkeypatch.setattr(run, "quality", lambda folder, case: lambda samples: (0.9, 0.1))
    return script, log


def measured(script, repeats=3, **more):
    peers = [
        Peer(OURS, script, "a", (60,), ("stream", "one"), (1,)),
        Peer("absent", script, "absent", (60,), passes=(1,)),
        Peer("broken", script, "broken", (60,), passes=(1,)),
        Peer("not on this stream", script, "b", (0,), passes=(1,)),
        Peer("rival", script, "b", (40,), passes=(1,)),
    ]
    return bench(Path(sys.executable), repeats, peers=peers, cases=[SMALL], alone=False, **more)


def test_peers_take_turns(fake):
    script, log = fake
    measured(script)
    warmed, passes = log.read_text().split()[:2], log.read_text().split()[2:]
    assert warmed == ["a", "b"]
    assert passes == ["a", "b"] * 3


def test_the_content_of_bench_json(fake):
    content = measured(fake[0])
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert set(content) == {"machine", "repeats", "rows", "missing"}
    assert {"cpu", "cores", "system", "python", "libraries"} <= set(content["machine"])
    assert content["machine"]["libraries"] == {"numpy": np.__version__}
    assert [(row["who"], row["mode"]) for row in content["rows"]] == [
        (OURS, "stream"),
        (OURS, "one"),
        ("rival", "stream"),
        ("rival", "one"),
    ]
    ours, rival = content["rows"][0], content["rows"][2]
    assert set(rival) >= {"stream", "who", "mode", "samples_per_s", "ratio_to_us", "accuracy", "labels", "samples"}
    assert (rival["stream"], rival["accuracy"], rival["labels"], rival["samples"]) == ("small", 0.5, 0.25, 40)
    assert (rival["our_accuracy"], rival["our_labels"]) == (0.9, 0.1)
    assert rival["ratio_to_us"] == pytest.approx(ours["samples_per_s"] / rival["samples_per_s"])
    assert ours["ratio_to_us"] == 1.0


def test_a_peer_that_is_missing_or_breaks_is_named_and_the_others_go_on(fake):
    missing = measured(fake[0])["missing"]
    assert set(missing) == {"absent", "broken"}
    assert "a_library_that_is_not_there" in missing["absent"]
    assert "it broke" in missing["broken"]


def test_an_environment_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="make bench"):
        bench(Path("no/such/python"))


def test_no_peer_script_imports_osamd():
    scripts = sorted(PEERS_FOLDER.glob("*.py"))
    assert {peer.script for peer in PEERS if peer.script} <= set(scripts)
    for script in scripts:
        assert "import osamd" not in script.read_text()
        assert "from osamd" not in script.read_text()


@pytest.mark.parametrize("case", [case for case in CASES.values() if case.classes == 2], ids=lambda case: case.name)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the C reference needs gcc")
def test_the_c_reference_decides_and_asks_as_the_plain_path_does(case, tmp_path):
    x, y = case.draw()
    c_play = compile_reference(tmp_path)
    check(c_play, case.learner(), x[:2000], y[:2000])
    _, asked = c_play(case.learner(), x[:2000], y[:2000], draw(2000))
    assert 20 < asked.sum() < 1000
    with pytest.raises(InputError, match="another decision"):
        check(lambda *given: (1 - c_play(*given)[0], c_play(*given)[1]), case.learner(), x[:100], y[:100])


def made_up(speed):
    """Content in which every peer is `speed` times slower than we are."""
    row = {"accuracy": 0.98, "labels": 0.1, "samples": 1000, "our_accuracy": 0.97, "our_labels": 0.1}
    rows = [
        {"stream": stream, "who": who, "mode": mode, "samples_per_s": 1e6 / ratio, "ratio_to_us": ratio, **row}
        for stream in CASES
        for who, ratio in ((OURS, 1.0), (ENTROPY, speed), (PARSED, speed), (C_REFERENCE, speed))
        for mode in ("stream", "one")
    ]
    return {
        "machine": {"cpu": "a", "cores": 2, "system": "b", "python": "3", "load_before": 0.0, "libraries": {"c": "1"}},
        "repeats": 5,
        "rows": rows,
        "missing": {"somebody": "no wheel"},
        "scaling": {"features": [{"features": d, "ns_per_sample": 5.0 * d**1.3} for d in (2, 64, 512, 4096)]},
        "start": {
            name: {"seconds": s, "wall_seconds": s}
            for name, s in {"import osamd": 0.1, "import sklearn": 0.5, "osamd --help": 0.2}.items()
        },
        "memory": [{"rounds": 10, "peak_mib": 100.0}, {"rounds": 1000, "peak_mib": 104.0}],
    }


def test_targets_are_judged_by_the_numbers():
    met = {target.target: target.met for target in targets(made_up(50.0))}
    assert len(met) == 10 + 2 + 1 + 1
    assert [name for name, good in met.items() if not good] == [
        f"whole stream, d=3: at least 100 x {ENTROPY}",
        f"whole stream, d=784, 10 classes: at least 100 x {ENTROPY}",
        "cost linear in features: exponent at most 1.15",
    ]
    assert exponent(made_up(1.0)["scaling"]["features"], "features") == pytest.approx(1.3)


def test_the_report_shows_every_row_and_who_is_missing(tmp_path):
    content = made_up(50.0)
    shown = report(content)
    assert sum(len(table.rows) for table in shown.tables[:-1]) == len(content["rows"])
    assert shown.tables[-1].notes == ["Missing: somebody (no wheel)."]
    assert shown.content["targets"][0]["met"] is False
    shown.figure.savefig(tmp_path / "figure.png")


def test_the_page_takes_the_numbers_of_a_run_between_its_marks():
    text = page.PAGE.read_text()
    written = page.rewrite(text, made_up(50.0))
    assert "| osamd | whole stream | 1,000,000 |" in written
    assert page.rewrite(written, made_up(50.0)) == written
    assert written.split(page.BEGIN)[0] == text.split(page.BEGIN)[0]
