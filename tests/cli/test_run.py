"""`osamd run`: a prequential run on a user's table, late labels, the other methods, the report, and refusals."""

import io
import json
import os
import re
import sys

import numpy as np
import pandas
import pytest

import osamd.cli.run_table
from osamd.cli.app import main
from osamd.errors import InputError
from osamd.evaluation.answers import Delay
from osamd.evaluation.intervals import mean_90
from osamd.learner.linear import OSAMD, REACH
from osamd.paper.methods import KNOWN, METHODS, Settings, learner
from osamd.paper.models import linear
from osamd.paper.play import play
from osamd.prequential.changes_found import ADWIN_FOUND
from osamd.prequential.delays import KINDS, delay_named
from osamd.prequential.page import page
from osamd.prequential.report import tables
from osamd.prequential.results import content
from osamd.prequential.runs import share
from osamd.prequential.sentences import advice, notes
from osamd.streams import Arrays

WARMUP = 100
FILES = ["report.html", "results.json"]


def drifting(count=1100, seed=0):
    """Two classes whose centres turn by a quarter, as x (count x 3) and y."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, count)
    angle = np.linspace(0.0, np.pi / 2, count)
    side = np.where(y == 1, 1.5, -1.5)
    centre = np.stack([side * np.cos(angle), side * np.sin(angle), np.zeros(count)], axis=1)
    return centre + generator.normal(size=(count, 3)) * [1.0, 1.0, 30.0] + [5.0, 0.0, 100.0], y


@pytest.fixture
def table(tmp_path):
    x, y = drifting()
    path = tmp_path / "turn.csv"
    lines = [",".join(map(repr, row.tolist())) + f",{label}" for row, label in zip(x, y, strict=True)]
    path.write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    return path


def command(*arguments):
    return main(["run", *map(str, arguments)])


def results(folder):
    return json.loads((folder / "results.json").read_text())


def standardised(x, warmup):
    """Rows by mean and deviation of the warm-up rows and of all rows up to each."""
    done = x[:warmup]
    count, means, squares = float(warmup), done.mean(axis=0), ((done - done.mean(axis=0)) ** 2).sum(axis=0)
    rows = []
    for row in x[warmup:]:
        count += 1.0
        delta = row - means
        means = means + delta / count
        squares = squares + delta * (row - means)
        rows.append((row - means) / np.sqrt(squares / count))
    return np.array(rows)


def test_without_budget_and_delay_it_is_the_plain_loop_on_the_same_seed(table):
    x, y = drifting()
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, method="osamd", sigma=0.5, seed=3)
    started = OSAMD.from_source(x[:WARMUP], y[:WARMUP].tolist(), standardise=True).weights
    settings = Settings(eta=REACH / 4, sigma=0.5)
    stream = Arrays(standardised(x, WARMUP), y[WARMUP:].tolist())
    expected = play(learner("osamd", linear(features=3), settings, start=started), stream, seed=3).ledger
    assert np.array_equal(outcome.ledger.asked, expected.asked)
    assert np.array_equal(outcome.ledger.decision, expected.decision)
    assert np.array_equal(outcome.ledger.pseudolabel, expected.pseudolabel)
    assert np.array_equal(outcome.ledger.label, expected.label)
    for name in ("margin", "probability", "loss"):
        np.testing.assert_allclose(getattr(outcome.ledger, name), getattr(expected, name), atol=1e-9)
    assert outcome.learner.rounds == len(outcome.ledger) == 1000


def test_without_a_method_it_is_the_preset_with_its_own_budget(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP)
    named = osamd.prequential.run(table, "y", warmup=WARMUP, method="osamd-preset", budget="5%")
    assert outcome.settings == named.settings
    assert (outcome.learner.method, outcome.settings["budget"]) == ("osamd-preset", 0.05)
    assert np.array_equal(outcome.ledger.asked, named.ledger.asked)
    x, y = drifting()
    plain = OSAMD.from_source(x[:WARMUP], y[:WARMUP].tolist(), budget=0.05)
    decided = []
    for row, label in zip(x[WARMUP:], y[WARMUP:].tolist(), strict=True):
        decision = plain.ask(row)
        decided.append(decision.label)
        plain.tell(decision, label if decision.query else None)
    assert decided == outcome.ledger.decision.tolist()


@pytest.mark.parametrize("given", [{"eta": 0.1}, {"sigma": 2.0}, {"eta": 0.1, "sigma": 2.0}])
def test_a_setting_of_the_papers_rounds_means_the_papers_method(given, table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget="5%", **given)
    named = osamd.prequential.run(table, "y", warmup=WARMUP, budget="5%", method="osamd", **given)
    assert outcome.settings == named.settings
    assert outcome.learner.method == "osamd"
    assert np.array_equal(outcome.ledger.asked, named.ledger.asked)


def test_the_command_writes_what_the_function_finds(table, tmp_path, capsys):
    assert command(table, "--label", "y", "--warmup", WARMUP, "--budget", "10%", "--out", tmp_path / "out") == 0
    assert sorted(os.listdir(tmp_path / "out")) == FILES
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.1, other_budgets=True)
    content = results(tmp_path / "out")
    assert content == json.loads(json.dumps(outcome.summary))
    assert content["methods"]["osamd-preset"]["accuracy"] == {"mean": outcome.ledger.accuracy, "half_width_90": None}
    assert content["methods"]["osamd-preset"]["labels_asked"] == int(outcome.ledger.asked.sum())
    assert content["rounds"] == 1000
    assert content["classes"] == [0, 1]
    assert content["settings"]["budget"] == 0.1
    assert [column["kind"] for column in content["columns"]] == ["numeric"] * 3
    printed = capsys.readouterr().out
    assert f"{100 * outcome.ledger.accuracy:.2f} % right" in printed
    for name in FILES:
        assert str(tmp_path / "out" / name) in printed


def test_the_budget_holds_in_every_round(table):
    for limits in ({"budget": "5%"}, {"max_labels": 20}, {"budget": 0.2, "max_labels": 30}):
        ledger = osamd.prequential.run(table, "y", warmup=WARMUP, **limits).ledger
        asked = np.cumsum(ledger.asked)
        rate = share(limits.get("budget", 1.0))
        assert (asked <= rate * np.arange(1, 1001) + 1e-9).all()
        assert 0 < asked[-1] <= limits.get("max_labels", 1000)


def test_the_learner_that_comes_back_knows_columns_and_classes(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP)
    assert outcome.learner.predict({"a": 5.0, "b": 9.0, "c": 100.0}) == 1


def test_labels_of_text_and_three_classes_with_categories(tmp_path):
    generator = np.random.default_rng(1)
    kind = generator.choice(["cat", "dog", "owl"], 800)
    size = np.array([{"cat": 0.0, "dog": 4.0, "owl": 0.0}[k] for k in kind]) + generator.normal(size=800)
    flies = np.where(kind == "owl", "yes", "no")
    path = tmp_path / "animals.jsonl"
    path.write_text(
        "".join(
            json.dumps({"size": s, "flies": f, "kind": k}) + "\n" for s, f, k in zip(size, flies, kind, strict=True)
        )
    )
    outcome = osamd.prequential.run(path, "kind", warmup=WARMUP, budget="10%")
    assert outcome.classes == ["cat", "dog", "owl"]
    assert outcome.ledger.accuracy > 0.9
    assert outcome.summary["columns"][1]["categories"] == ["no", "yes"]


def test_every_source_of_the_same_rows_gives_the_same_result(table, tmp_path, monkeypatch):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    x, y = drifting()
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y}
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "turn.parquet")
    frame.to_json(tmp_path / "turn.jsonl", orient="records", lines=True, double_precision=15)
    expected = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.1).ledger
    tables = [
        frame,
        polars.DataFrame(columns),
        pyarrow.table(columns),
        tmp_path / "turn.parquet",
        tmp_path / "turn.jsonl",
    ]
    for source in tables:
        found = osamd.prequential.run(source, "y", warmup=WARMUP, budget=0.1).ledger
        assert np.array_equal(found.decision, expected.decision)
        assert np.array_equal(found.asked, expected.asked)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.read_bytes())))
    assert command("-", "--label", "y", "--warmup", WARMUP, "--budget", "10%", "--out", tmp_path / "out") == 0
    content = results(tmp_path / "out")
    assert content["stream"] == "standard input"
    assert content["methods"]["osamd-preset"]["accuracy"]["mean"] == expected.accuracy


def test_a_delay_of_nothing_is_no_delay(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, delay="fixed:0")
    assert np.array_equal(outcome.run.right, outcome.without_delay.right)
    assert outcome.run[:-1] == outcome.without_delay[:-1]


def test_late_labels_are_told_late_and_lost_ones_never(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.2, delay="fixed:100")
    asked = np.flatnonzero(outcome.ledger.asked)
    assert outcome.came.tolist() == [t + 100 for t in asked if t + 100 < 1000]
    assert outcome.run.pending == int((asked >= 900).sum())
    lost = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.2, delay="lost:1").run
    assert (lost.told, lost.pending) == (0, 0)
    assert lost.expired == lost.asked > 0


def test_the_report_shows_what_delay_costs(table, tmp_path, capsys):
    delayed = ("--delay", "random:50,lost:0.2", "--budget", "20%")
    assert command(table, "--label", "y", "--warmup", WARMUP, *delayed, "--out", tmp_path / "out") == 0
    content = results(tmp_path / "out")
    with_delay, without = content["methods"]["osamd-preset"], content["without_delay"]
    cost = without["accuracy"]["mean"] - with_delay["accuracy"]["mean"]
    assert content["delay_costs"]["mean"] == pytest.approx(cost)
    half = content["delay_costs"]["half_width_90"]
    assert content["seeds"] == 5
    assert content["settings"]["delay"] == {"fixed": 0, "random": 50.0, "bursty": 0, "lost": 0.2}
    assert without["labels_lost"] == 0 < with_delay["labels_lost"]
    parts = ("labels_told", "labels_lost", "labels_under_way")
    assert sum(with_delay[part] for part in parts) == with_delay["labels_asked"]
    printed = capsys.readouterr().out
    assert "50 rounds late on average, 20 % never" in printed
    said = "No cost could be measured:" if abs(cost) <= half else "That costs"
    assert f"{said} {100 * cost:.2f} ± {100 * half:.2f} points" in printed


@pytest.mark.parametrize(
    ("method", "title", "key"),
    [
        (None, "OSAMD preset", "osamd_preset_minus"),
        ("osamd", "OSAMD", "osamd_minus"),
        ("paa", "PAA", "paa_minus"),
    ],
)
def test_compare_plays_the_papers_methods_beside_it_at_equal_labels(method, title, key, table, tmp_path, capsys):
    named = () if method is None else ("--method", method)
    assert command(table, "--label", "y", "--warmup", WARMUP, "--compare", "--out", tmp_path / "out", *named) == 0
    content = results(tmp_path / "out")
    methods = content["methods"]
    assert list(methods) == (["osamd-preset"] if method is None else []) + list(METHODS)
    ours = method or "osamd-preset"
    rate = methods["osamd" if method else ours]["labels"]["mean"]
    for name, method in METHODS.items():
        asked = methods[name]["labels"]["mean"]
        # Uniform queries are drawn; 1000 of them stray by 0.05 once in a thousand runs.
        assert asked == 1.0 if method.query == "always" else abs(asked - rate) < 0.05
        if name != ours:
            apart = methods[ours]["accuracy"]["mean"] - methods[name]["accuracy"]["mean"]
            assert content[key][name]["mean"] == pytest.approx(apart)
    printed = capsys.readouterr().out
    assert f"{title} minus it: points of accuracy, seed by seed." in " ".join(printed.split())
    assert "OMD (all): every label" in printed
    assert "ceiling" not in printed


def test_methods_that_ask_uniformly_take_as_many_labels_on_average(tmp_path):
    x, y = drifting(300)
    path = tmp_path / "short.csv"
    path.write_text("a,b,y\n" + "".join(f"{a},{b},{k}\n" for (a, b, _), k in zip(x, y, strict=True)))
    outcome = osamd.prequential.run(path, "y", warmup=WARMUP, compare=True, budget=0.1, seeds=30)
    ours, others = outcome.repeats["osamd-preset"], outcome.repeats["omd-partial"]
    apart = np.array([one.asked - other.asked for one, other in zip(ours, others, strict=True)])
    assert (apart < 0).any()
    assert (apart > 0).any()
    # Some 19 of 200 labels, drawn: the mean of 30 counts strays by 3 once in ten thousand times.
    assert abs(apart.mean()) < 3.0
    limited = osamd.prequential.run(path, "y", warmup=WARMUP, compare=True, budget=0.1, max_labels=8, seeds=5)
    assert all(run.asked <= 8 for name, runs in limited.repeats.items() if name != "omd-all" for run in runs)


def test_a_model_that_is_as_good_left_alone_is_told_of(table, tmp_path, capsys):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    path = tmp_path / "still.csv"
    path.write_text("a,y\n" + "".join(f"{a},{k}\n" for a, k in zip(10.0 * y + generator.random(400), y, strict=True)))
    for file, there in ((path, True), (table, False)):
        assert command(file, "--label", "y", "--warmup", WARMUP, "--budget", "10%", "--out", tmp_path / "out") == 0
        printed = " ".join(capsys.readouterr().out.split())
        for text in (printed, (tmp_path / "out" / "report.html").read_text()):
            said = "Left alone, the model of the warm-up is right in 100.00 % too:"
            assert (said in text) == there
            assert ("Left alone, " in text) == there


def test_too_few_labels_for_an_estimate_are_told_of(table, tmp_path, capsys):
    assert command(table, "--label", "y", "--warmup", WARMUP, "--budget", "1%", "--out", tmp_path / "out") == 0
    labels = results(tmp_path / "out")["estimate"]["labels"]
    assert labels < 20
    assert f"Too few labels ({labels} of 20) for an estimate of the accuracy." in capsys.readouterr().out


def test_a_setting_that_means_the_papers_method_is_told_of(table, tmp_path, capsys):
    for given, there in ((("--eta", "0.1"), True), (("--eta", "0.1", "--method", "osamd"), False), ((), False)):
        assert command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out", *given) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert ("The setting eta means the paper's OSAMD, which has no budget unless one is given" in printed) == there


def test_compare_plays_on_where_no_label_was_asked_for(tmp_path, capsys):
    x, y = drifting(500)
    path = tmp_path / "short.csv"
    path.write_text("a,y\n" + "".join(f"{a},{k}\n" for a, k in zip(x[:, 0], y, strict=True)))
    assert command(path, "--label", "y", "--warmup", 490, "--budget", "5%", "--compare", "--out", tmp_path / "o") == 0
    methods = results(tmp_path / "o")["methods"]
    asked = {name: method["labels_asked"] for name, method in methods.items()}
    assert asked == {name: 10 if name == "omd-all" else 0 for name in ("osamd-preset", *METHODS)}
    assert "the methods that ask uniformly asked for none either" in capsys.readouterr().out


def test_means_and_differences_are_over_the_query_seeds(table):
    options = {"warmup": WARMUP, "budget": 0.1, "compare": True}
    outcome = osamd.prequential.run(table, "y", seed=2, seeds=3, **options)
    content = outcome.summary
    single = [osamd.prequential.run(table, "y", seed=seed, seeds=1, **options) for seed in (2, 3, 4)]
    for name in KNOWN:
        alone = [one.runs[name].accuracy for one in single]
        assert [run.accuracy for run in outcome.repeats[name]] == alone
        assert content["methods"][name]["accuracy"] == mean_90(alone)._asdict()
        apart = mean_90([one.run.accuracy - one.runs[name].accuracy for one in single])
        if name != "osamd-preset":
            assert content["osamd_preset_minus"][name] == apart._asdict()
            assert single[0].summary["osamd_preset_minus"][name]["half_width_90"] is None
    assert np.array_equal(outcome.ledger.asked, single[0].ledger.asked)
    assert (content["seeds"], content["settings"]["seed"]) == (3, 2)


def test_one_seed_is_played_where_nothing_is_compared(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP)
    assert outcome.summary["seeds"] == len(outcome.repeats["osamd-preset"]) == 1
    more = osamd.prequential.run(table, "y", warmup=WARMUP, seeds=2)
    assert more.summary["methods"]["osamd-preset"]["accuracy"]["half_width_90"] is not None
    assert more.run.accuracy == outcome.run.accuracy


def test_every_run_shows_what_is_right_without_labels(table, tmp_path, capsys):
    x, y = drifting()
    once = OSAMD.from_source(x[:WARMUP], y[:WARMUP].tolist(), standardise=True, method="paa")
    alone = np.array([once.predict(row) for row in x[WARMUP:]]) == y[WARMUP:]
    commonest = y[WARMUP:] == np.bincount(y[:WARMUP]).argmax()
    for more in ((), ("--compare",), ("--delay", "fixed:20"), ("--delay", "fixed:20", "--compare")):
        options = ("--warmup", WARMUP, "--budget", "10%", "--seeds", 2, "--out", tmp_path / "out", *more)
        assert command(table, "--label", "y", *options) == 0
        baselines = results(tmp_path / "out")["baselines"]
        for name, right in (("left_alone", alone), ("commonest_class", commonest)):
            assert baselines[name]["accuracy"] == right.mean()
            assert baselines[name]["last"] == right[-100:].mean()
        printed, page = capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()
        for text in (printed, page):
            assert text.count("left alone after the warm-up") == 1
            assert "last 100 rounds %" in text
            assert ", the commonest class" in text


def test_results_say_what_the_estimate_rests_on(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget="20%")
    content = outcome.summary
    found = outcome.learner.accuracy()
    assert content["osamd"] == osamd.__version__
    assert content["estimate"]["labels"] == found.labels == outcome.run.told
    assert content["estimate"]["blind_rounds"] == found.blind
    assert content["curve"]["window"] == content["settings"]["window"]
    health = outcome.learner.health()
    assert content["health"] == {"state": health.state, "why": health.why, "remedy": health.remedy}
    assert content["methods"]["osamd-preset"]["last"]["mean"] == outcome.run.right[-100:].mean()
    assert content["last_rounds"] == 100


def test_the_estimate_is_printed_for_all_rounds_and_for_the_last(tmp_path, capsys):
    x, y = drifting(2600)
    path = tmp_path / "long.csv"
    path.write_text("a,b,y\n" + "".join(f"{a},{b},{k}\n" for (a, b, _), k in zip(x, y, strict=True)))
    assert command(path, "--label", "y", "--warmup", WARMUP, "--budget", "20%", "--out", tmp_path / "out") == 0
    content = results(tmp_path / "out")
    printed = capsys.readouterr().out
    for name, rounds in (("estimate", 2500), ("estimate_of_window", 1000)):
        assert content[name]["rounds"] == rounds
        assert f"is {100 * content[name]['accuracy']:.2f} % (90 % interval " in printed
    assert "over the last 1,000 rounds it is" in printed
    assert f"The accuracy estimated from {content['estimate']['labels']:,} labels alone" in printed


def test_a_cost_of_delay_is_worded_by_its_interval(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.2, delay="fixed:0", seeds=2)
    assert "No cost could be measured: 0.00 ± 0.00 points of accuracy." in tables(outcome)[0].notes[0]
    alone = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.2, delay="lost:1", seeds=1)
    said = tables(alone)[0].notes[0]
    assert "On this one seed that costs" in said
    assert "±" not in said


def test_recall_and_precision_by_class_come_from_the_ledger(table, tmp_path, capsys):
    assert command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out") == 0
    ledger = osamd.prequential.run(table, "y", warmup=WARMUP).ledger
    printed = capsys.readouterr().out
    for one in results(tmp_path / "out")["by_class"]:
        both = np.sum((ledger.label == one["class"]) & (ledger.decision == one["class"]))
        assert one["recall"] == both / np.sum(ledger.label == one["class"])
        assert one["precision"] == both / np.sum(ledger.decision == one["class"])
        assert f"{100 * one['recall']:.2f}" in printed
    assert "OSAMD preset by class" in printed


def test_a_collapse_raises_an_alarm_in_the_output(table, tmp_path, capsys, monkeypatch):
    sound = OSAMD.health
    alarm = {"state": "alarm", "why": "Class 0 takes all.", "remedy": "Start anew."}
    monkeypatch.setattr(OSAMD, "health", lambda self: sound(self)._replace(**alarm))
    assert command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out") == 0
    assert "Alarm: Class 0 takes all. Start anew." in capsys.readouterr().out
    assert results(tmp_path / "out")["health"]["state"] == "alarm"


def test_labels_that_are_gone_at_once_are_told_of(table, tmp_path, capsys):
    assert command(table, "--label", "y", "--warmup", WARMUP, "--max-labels", 20, "--out", tmp_path / "out") == 0
    gone = int(np.flatnonzero(osamd.prequential.run(table, "y", warmup=WARMUP, max_labels=20).ledger.asked)[-1]) + 1
    printed = capsys.readouterr().out
    assert f"All 20 labels had been asked for by round {gone} of 1,000; a budget of 2% too spreads them" in printed
    blind = int(re.search(r"In (\d+) of 1,000 rounds the learner could not ask for a label", printed)[1])
    assert 1000 - gone <= blind < 1000
    assert "is estimated at" not in printed


def test_without_a_budget_one_is_suggested(table, tmp_path, capsys):
    options = ("--label", "y", "--warmup", WARMUP, "--method", "osamd", "--out", tmp_path / "out")
    assert command(table, *options) == 0
    printed = capsys.readouterr().out
    assert "No budget was given; one of 5% asks for 50 labels at most" in printed
    assert "OSAMD on turn.csv: after 100 labelled rows, " in printed
    assert command(table, *options, "--budget", "5%") == 0
    assert "No budget was given" not in capsys.readouterr().out


def test_pseudolabel_errors_are_shown_where_pseudolabels_are_used(table):
    outcome = osamd.prequential.run(table, "y", warmup=WARMUP, budget=0.1, compare=True, seeds=1)
    shown = {row[0]: row[-1] for row in tables(outcome)[0].rows}
    for name, method in METHODS.items():
        title = method.title + (": every label" if name == "omd-all" else "")
        assert (shown[title] == "-") is not method.self_training


def test_a_class_that_holds_a_comma_can_be_named(tmp_path, capsys):
    x, y = drifting(300)
    path = tmp_path / "comma.csv"
    labels = ['"a, b"' if k else "c" for k in y]
    path.write_text("a,y\n" + "".join(f"{a},{k}\n" for a, k in zip(x[:, 0], labels, strict=True)))
    for given in (("--classes", 'c,"a, b"'), ("--classes", "c", "--classes", '"a, b"')):
        assert command(path, "--label", "y", "--warmup", WARMUP, *given, "--out", tmp_path / "out") == 0
        assert results(tmp_path / "out")["classes"] == ["c", "a, b"]
        assert "classes 'c', 'a, b'." in capsys.readouterr().out


def test_an_output_folder_that_is_a_file_is_refused(table, capsys):
    for out in (table, table / "in"):
        assert command(table, "--label", "y", "--warmup", WARMUP, "--out", out) == 2
        assert f"`--out {out}`: {table} is a file; name a folder." in capsys.readouterr().err


def test_a_raw_row_becomes_the_features_of_the_learner(tmp_path):
    generator = np.random.default_rng(0)
    kind = generator.integers(0, 2, 400)
    lines = [f"{generator.normal() + 3 * k:.3f},{'ab'[int(k)]},{'true' if k else 'false'},{k}\n" for k in kind]
    path = tmp_path / "mixed.csv"
    path.write_text("size,letter,open,kind\n" + "".join(lines))
    outcome = osamd.prequential.run(path, "kind", warmup=WARMUP)
    assert outcome.learner.features == ["size", "letter=a", "letter=b", "open"]
    assert outcome.row({"size": "3.1", "letter": "b", "open": True}).tolist() == [3.1, 0.0, 1.0, 1.0]
    sizes = [float(line.split(",")[0]) for line in lines]
    gaps = outcome.row({"size": None, "letter": "z", "open": "false"})
    assert gaps.tolist() == [pytest.approx(np.mean(sizes)), 0.0, 0.0, 0.0]
    assert outcome.learner.predict(outcome.row({"size": 3.1, "letter": "b", "open": True})) == 1
    with pytest.raises(InputError, match="x has no 'letter'"):
        outcome.row({"size": 3.1, "open": True})
    with pytest.raises(InputError, match="'size' is 'much'; give a number"):
        outcome.row({"size": "much", "letter": "a", "open": True})


def test_compared_or_alone_a_method_does_the_same(table):
    options = {"warmup": WARMUP, "budget": 0.1, "delay": "bursty:100"}
    together = osamd.prequential.run(table, "y", compare=True, method="paa", **options)
    for name in ("paa", "osamd"):
        alone = osamd.prequential.run(table, "y", method=name, **options)
        assert np.array_equal(together.runs[name].right, alone.run.right)


def test_the_page_is_one_file_that_needs_nothing_else(table, tmp_path):
    strange = tmp_path / "<b>&.csv"
    strange.write_bytes(table.read_bytes())
    assert command(strange, "--label", "y", "--warmup", WARMUP, "--compare", "--out", tmp_path / "out") == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;b&gt;&amp;.csv" in page
    assert "<b>&.csv" not in page
    assert re.search(r'(src|href|url)\s*[=(]\s*["\']?(https?:)?//', page) is None
    assert 'name="viewport"' in page
    assert page.count("<script>") == page.count("</script>") == 1


def changing(path, rows=3000):
    """Two classes whose features change places in the middle."""
    generator = np.random.default_rng(5)
    y = generator.integers(0, 2, rows)
    x = generator.normal(size=(rows, 2)) + 3.0 * np.where(np.arange(rows) < rows // 2, y, 1 - y)[:, None]
    lines = [f"{a:.4f},{b:.4f},{'yes' if c else 'no'}" for (a, b), c in zip(x, y, strict=True)]
    path.write_text("\n".join(["a,b,state", *lines]))
    return path


def test_the_report_answers_when_it_changed_which_classes_fail_and_what_to_do(tmp_path):
    outcome = osamd.prequential.run(changing(tmp_path / "t.csv"), "state", warmup=500, other_budgets=True)
    assert list(outcome.by_budget) == [0.025, 0.05, 0.1, 1.0]
    assert outcome.by_budget[0.05] is outcome.run
    assert any(abs(change.round - 1000) <= 150 for change in outcome.changes)
    shown = page(outcome)
    for words in ("What to do next", "if the model is left alone", "with every label", "a change was found"):
        assert words in shown
    matrix = re.findall(r'title="([\d,]+) rows of (yes|no) decided as (yes|no)"', shown)
    counted = sum(int(rows.replace(",", "")) for rows, _, _ in matrix)
    assert counted == len(outcome.ledger)
    assert advice(outcome) in shown.replace("&#x27;", "'")
    largest = max(outcome.changes, key=lambda one: (one.found_by == ADWIN_FOUND, abs(one.after - one.before)))
    assert f"The largest is at row {500 + largest.round:,}: " in shown


def test_many_classes_show_those_that_fail_most(tmp_path):
    generator = np.random.default_rng(2)
    y = generator.integers(0, 24, 3000)
    x = (
        np.column_stack([np.cos(y), np.sin(y), y / 4.0]) * 4.0
        + generator.normal(size=(3000, 3)) * (1.0 + 2.0 * (y > 21))[:, None]
    )
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join(["a,b,c,y", *(f"{a:.3f},{b:.3f},{c:.3f},k{k}" for (a, b, c), k in zip(x, y, strict=True))])
    )
    outcome = osamd.prequential.run(path, "y", warmup=1000)
    recall = {one["class"]: one["recall"] for one in content(outcome)["by_class"]}
    classes = tables(outcome)[-1]
    assert [row[0] for row in classes.rows] == sorted(recall, key=recall.get)[:20]
    assert "results.json has all 24" in classes.notes[-1]
    shown = page(outcome)
    assert "The 12 classes with the fewest mistakes are not shown" in shown
    assert "rows of k23 decided as k23" in shown


def test_columns_that_say_nothing_are_told_rather_than_that_half_of_the_labels_would_do(tmp_path):
    generator = np.random.default_rng(3)
    y = np.where(generator.random(1500) < 0.9, "calm", "storm")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,y", *(f"{a:.3f},{k}" for a, k in zip(generator.normal(size=1500), y, strict=True))]))
    outcome = osamd.prequential.run(path, "y", warmup=500, other_budgets=True)
    assert advice(outcome).startswith(("Always 'calm'", "Left alone", "Leaving the model"))


def test_a_still_stream_has_no_change(tmp_path):
    generator = np.random.default_rng(6)
    y = generator.integers(0, 2, 3000)
    x = generator.normal(size=3000) + 2.0 * y
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,y", *(f"{a:.4f},{b}" for a, b in zip(x, y, strict=True))]))
    outcome = osamd.prequential.run(path, "y", warmup=500)
    assert outcome.changes == []
    assert outcome.by_budget == {}


def test_warmup_can_be_left_out_where_the_classes_are_named(table):
    outcome = osamd.prequential.run(table, "y", warmup=0, classes=[0, 1])
    assert outcome.baselines == {}
    assert tables(outcome)[0].title.startswith(f"OSAMD preset on turn.csv: {100 * outcome.run.accuracy:.2f} % right")
    assert len(outcome.ledger) == 1100
    assert outcome.ledger.accuracy > 0.7


def test_classes_that_the_warmup_lacks_can_be_named(tmp_path):
    x, y = drifting(600)
    order = np.argsort(y[:WARMUP], kind="stable")
    labels = np.concatenate([y[:WARMUP][order], y[WARMUP:]])
    labels[300:] = np.where(x[300:, 1] > 2.0, 2, labels[300:])
    path = tmp_path / "more.csv"
    path.write_text("a,b,c,y\n" + "".join(f"{a},{b},{c},{k}\n" for (a, b, c), k in zip(x, labels, strict=True)))
    with pytest.raises(InputError, match=r"classes=\[0, 1, 2\]"):
        osamd.prequential.run(path, "y", warmup=WARMUP, method="osamd")
    with pytest.raises(InputError, match=r"classes=\[0, 1, 2\]"):  # those that are named are all there are
        osamd.prequential.run(path, "y", warmup=WARMUP, classes=["0", "1"])
    assert osamd.prequential.run(path, "y", warmup=WARMUP, classes=["0", "1", "2"]).classes == [0, 1, 2]


def test_a_class_that_first_appears_late_does_not_stop_a_run_and_is_learned():
    generator = np.random.default_rng(0)
    kind = np.where(np.arange(2500) < 1500, generator.integers(0, 2, 2500), generator.integers(0, 3, 2500))
    x = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])[kind] + generator.normal(size=(2500, 2))
    frame = pandas.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.array(["one", "two", "late"])[kind]})
    outcome = osamd.prequential.run(frame, "y", warmup=300, budget=0.1)
    assert outcome.classes == ["one", "two", "late"]
    found = content(outcome)
    assert found["new_classes"] == ["late"]
    assert found["by_class"][2]["recall"] > 0.8
    recalls = [one["recall"] for one in found["by_class"]]
    measured, alone = found["methods"]["osamd-preset"], found["baselines"]["left_alone"]
    assert measured["balanced_accuracy"]["mean"] == pytest.approx(np.mean(recalls))
    assert alone["balanced_accuracy"] < 0.7  # it never decides for the late one
    assert found["gain_over_source"]["low"] > 0.0
    assert any("'late'" in note for note in notes(outcome))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "0%"), "as in --budget 5%"),
        (("--budget", "5"), "Did you mean 5%?"),
        (("--budget", "much"), "`--budget much`"),
        (("--budget", "120%"), "at most 100%"),
        (("--max-labels", "0"), "greater than or equal to 1"),
        (("--method", "osmad"), "Did you mean 'osamd'?"),
        (("--method", "omd-partial"), "give --budget 5%"),
        (("--method", "osamd-preset", "--eta", "0.1"), "leave --eta out"),
        (("--method", "omd-all", "--budget", "5%"), "it asks for every label"),
        (("--delay", "fixd:3"), "Did you mean 'fixed'?"),
        (("--delay", "fixed"), "fixed:NUMBER needs the rounds"),
        (("--delay", "fixed:1.5"), "fixed:NUMBER needs the rounds"),
        (("--delay", "fixed:-1"), "fixed:NUMBER"),
        (("--delay", "bursty:0"), "bursty:NUMBER"),
        (("--delay", "lost:20"), "between 0 and 1"),
        (("--delay", "lost:0.1,lost:0.2"), "lost is given twice"),
        (("--delay", ""), "no kind of delay"),
        (("--warmup", "1100"), "give a smaller one by --warmup 550"),
        (("--label", "why"), "Did you mean 'y'? Its columns: 'y', 'a', 'b', 'c'."),
        (("--label", "c", "--classes", "1,2"), "name them all by --classes"),
        (("--drop", "d"), "`--drop d`"),
        (("--sigma", "0"), "`--sigma 0`: sigma must be positive"),
        (("--eta", "-1"), "`--eta -1`: eta must be positive"),
        (("--seeds", "0"), "greater than or equal to 1"),
        (("--format", "xml"), "`--format xml`"),
        (("--seed", "-1"), "greater than or equal to 0"),
        (("--out", ""), "name a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(arguments, words, table, tmp_path, capsys):
    out = tmp_path / "new" / "deep"
    assert command(table, "--label", "y", "--warmup", WARMUP, "--out", out, *arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.endswith((".\n", "?\n"))
    assert captured.out == ""
    assert sorted(os.listdir(tmp_path)) == ["turn.csv"]


def test_an_error_in_the_middle_of_the_file_writes_nothing(table, tmp_path, capsys):
    with table.open("a") as file:
        file.write("1,2\n")
    assert command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out") == 2
    assert "turn.csv, line 1102: 2 values, but the header names 4 columns" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_works_without_matplotlib_and_river(table, tmp_path, monkeypatch):
    for name in ("matplotlib", "river", "river.drift"):
        monkeypatch.setitem(sys.modules, name, None)
    assert command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out") == 0
    assert sorted(os.listdir(tmp_path / "out")) == FILES


def test_a_full_disk_under_the_kept_rows_is_a_sentence(table, tmp_path, capsys, monkeypatch):
    def full(file, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert command(table, "--label", "y", "--warmup", WARMUP, "--compare", "--out", tmp_path / "out") == 2
    assert "name another folder by the variable TMPDIR" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_help_says_how_columns_are_read(capsys):
    assert command("--help") == 0
    words = " ".join(capsys.readouterr().out.split())
    for said in (
        "an empty value, ?, NA, N/A, #N/A, <NA>, NaN, NaT, null and None are missing",
        "Dates give the hour, the weekday and the season",
        "--keep",
        "--decimal",
        "--encoding",
        "True and false are 1 and 0",
        "--categorical",
        "--seeds",
        "omd-partial asks at random",
        "The default is 5% with osamd-preset, and no limit with the paper's methods.",
    ):
        assert said in words


def test_a_reader_that_stops_early_does_not_take_the_files_away(table, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    def show(shown):
        raise Stopped

    monkeypatch.setattr(osamd.cli.run_table, "show", show)
    with pytest.raises(Stopped):
        command(table, "--label", "y", "--warmup", WARMUP, "--out", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == FILES


def test_a_delay_can_be_given_as_text_or_as_a_value():
    assert delay_named(Delay(random=100.0, lost=0.1)) == delay_named("random:100,lost:0.1")
    assert delay_named(Delay()) == Delay()
    with pytest.raises(InputError, match="needs the rounds"):
        delay_named(Delay(fixed=-1))


def test_every_kind_of_delay_is_named_in_the_help(capsys):
    assert command("--help") == 0
    printed = capsys.readouterr().out
    assert all(f"{kind}:" in printed for kind in KINDS)
