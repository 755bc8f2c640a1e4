"""The peers of test-time adaptation: each alone as among others, within its budget, and as its paper says."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

from osamd.cli.app import main
from osamd.errors import InputError
from osamd.fleet.augmentation import Augmentation
from osamd.reproduce import column_fleets, table_columns
from osamd.reproduce.adaptation import benchmarks, comparison, report
from osamd.reproduce.adaptation.active import k_margin, nearest_to_new_clusters
from osamd.reproduce.adaptation.entropy_minimisation import SAR, Tent, Unchanged
from osamd.reproduce.adaptation.fine_tuning import RandomReplay
from osamd.reproduce.adaptation.lockstep import play
from osamd.reproduce.adaptation.mean_teacher import CoTTA
from osamd.reproduce.adaptation.peer import BANK, Choice, Setting, bank_of
from osamd.reproduce.adaptation.registry import PEERS
from osamd.reproduce.adaptation.spending import Memory, Meter
from osamd.reproduce.adaptation.stacked_network import StackedNetwork
from osamd.reproduce.networks import Training
from osamd.streams.real.recorded import Recorded

SIDE, CLASSES = 8, 3
BUDGETS = (0.01, 0.05, 0.2)


def digits(count, seed, contrast=1.0, level=0.0):
    """Bars across, along and both, somewhere in an image of noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    x = 0.15 * rng.random((count, 1, SIDE, SIDE))
    for image, kind in zip(x[:, 0], y, strict=True):
        if kind != 1:
            image[rng.integers(1, SIDE - 1)] += 0.8
        if kind != 0:
            image[:, rng.integers(1, SIDE - 1)] += 0.8
    return torch.tensor(contrast * x + level, dtype=torch.float32), torch.tensor(y)


def network():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(6 * 16, CLASSES),
    )


@pytest.fixture(scope="module")
def modules():
    """Three networks that know the bars."""
    threads, made = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for seed in range(3):
        torch.manual_seed(seed)
        module = network()
        optimiser = torch.optim.Adam(module.parameters(), 1e-2)
        x, y = digits(600, seed)
        for batch in torch.randperm(600, generator=torch.Generator().manual_seed(seed)).repeat(8).split(50):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
        made.append(module.eval())
    torch.set_num_threads(threads)
    return made


def setting(modules, batch, seeds=(0, 1, 2), budgets=BUDGETS, statistics=True, factor=1.0, everything=False):
    stacked = StackedNetwork(modules[0])
    x, y = zip(*(digits(40, 50 + seed) for seed in seeds), strict=True)
    return Setting(
        stacked,
        stacked.stack([modules[seed] for seed in seeds]),
        [Choice(factor, statistics, everything)] * len(seeds),
        torch.tensor(budgets, dtype=torch.float64),
        bank_of(seeds),
        (torch.stack(x), torch.stack(y)),
        batch,
    )


def streams(rounds, count=3, **changed):
    x, y = zip(*(digits(rounds, 10 + seed, **changed) for seed in range(count)), strict=True)
    return torch.stack(x), torch.stack(y)


def test_a_stacked_network_gives_the_scores_of_its_modules(modules):
    stacked = StackedNetwork(modules[0])
    x, _ = streams(7)
    rows, own = stacked.stack(modules), torch.tensor([[0.0], [1.0], [0.0]])
    scored = stacked.score(rows, x, own)
    for i, module in enumerate(modules):
        alone = copy.deepcopy(module)
        alone[3].train(i == 1)
        torch.testing.assert_close(scored.logits[i], alone(x[i]), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(scored.features[i], alone[:-1](x[i]), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(stacked.logits(rows, x)[1], modules[1](x[1]), rtol=1e-4, atol=1e-4)


def test_a_network_of_other_layers_is_refused():
    with pytest.raises(InputError, match=r"it has Tanh; give a Sequential of convolutions"):
        StackedNetwork(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))


def test_norms_are_what_a_method_of_norms_adapts_and_biases_where_there_are_none(modules):
    stacked = StackedNetwork(modules[0])
    assert int(stacked.columns(norms_only=True).sum()) == 2 * 6
    assert int(stacked.columns(norms_only=False).sum()) == stacked.trained
    plain = StackedNetwork(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2), nn.Softmax(1)))
    assert int(plain.columns(norms_only=True).sum()) == 5 + 2


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("name", PEERS)
def test_a_model_plays_the_same_alone_and_among_others(modules, name, batch):
    x, y = streams(32)
    together = PEERS[name](setting(modules, batch))
    with torch.no_grad():
        parts = [slice(first, first + batch) for first in range(0, 32, batch)]
        played = [together.play(x[:, part], y[:, part], torch.tensor([n])) for n, part in enumerate(parts)]
        for seed in range(3):
            alone = PEERS[name](setting(modules, batch, (seed,), BUDGETS[seed : seed + 1]))
            for number, (part, of) in enumerate(zip(parts, played, strict=True)):
                one = alone.play(x[seed : seed + 1, part], y[seed : seed + 1, part], torch.tensor([number]))
                assert torch.equal(one.decision[0], of.decision[seed])
                assert torch.equal(one.asked[0], of.asked[seed])
            torch.testing.assert_close(alone.rows[0], together.rows[seed], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.labelled])
def test_no_method_exceeds_its_budget_at_any_time(modules, name, batch):
    rounds = 160
    x, y = streams(rounds, contrast=0.5, level=0.3)
    peer = PEERS[name](setting(modules, batch))
    asked = torch.zeros(3)
    with torch.no_grad():
        for first in range(0, rounds, batch):
            part = slice(first, first + batch)
            asked += peer.play(x[:, part], y[:, part], torch.tensor([first // batch])).asked.sum(1)
            assert (asked <= torch.tensor(BUDGETS) * (first + batch) + 1e-6).all()
    assert asked[2] >= 0.5 * BUDGETS[2] * rounds


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("name", PEERS)
def test_a_round_never_waits_for_the_host(modules, name, batch):
    """A tensor without values cannot be read by the host, so that a CUDA graph can hold such a round."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    peer = PEERS[name](setting(modules, batch))
    x, y = streams(batch)
    mode = FakeTensorMode(allow_non_fake_inputs=False)

    def fake(thing):
        return mode.from_tensor(thing) if isinstance(thing, torch.Tensor) else thing

    given = peer.setting
    peer.setting = given._replace(rows=fake(given.rows), budget=fake(given.budget), bank=fake(given.bank))
    parts = [part for part in vars(peer).values() if hasattr(part, "changing") or isinstance(part, Augmentation)]
    for part in (peer, *parts):
        for field, value in vars(part).items():
            setattr(part, field, fake(value))
    with torch.no_grad(), mode:
        played = peer.play(fake(x), fake(y), fake(torch.tensor([0])))
    assert played.asked.shape == (3, batch)


@pytest.mark.parametrize("name", ["tent", "sar"])
def test_lower_entropy_lowers_the_error_on_a_corrupted_stream_that_stands_still(modules, name):
    x, y = streams(1024, contrast=0.4, level=0.3)
    frozen = play(Unchanged(setting(modules, 16, statistics=False)), x, y, range(3))
    adapted = play(PEERS[name](setting(modules, 16)), x, y, range(3))
    assert np.mean(adapted.accuracy) > np.mean(frozen.accuracy) + 0.05
    assert list(adapted.labels) == [0.0, 0.0, 0.0]


def test_cotta_that_restores_everything_and_never_averages_is_the_source(modules):
    x, y = streams(32)
    peer = CoTTA(setting(modules, 16, statistics=False))
    peer.average, peer.restore = 1.0, 1.0
    peer.confident.zero_()  # every sample counts as confident, so that nothing is augmented
    shares = play(peer, x, y, range(3))
    assert torch.equal(peer.rows, peer.setting.rows)
    assert torch.equal(peer.teacher, peer.setting.rows)
    assert shares == play(Unchanged(setting(modules, 16, statistics=False)), x, y, range(3))


def test_sar_learns_nothing_from_samples_of_high_entropy_and_goes_back_when_entropy_vanishes(modules):
    x, y = streams(16)
    peer = SAR(setting(modules, 16))
    place = next(place for place in peer.network.places if place.name == "5.weight")
    peer.rows[:, place.first : place.last] *= 1e-3
    before = peer.rows.clone()
    with torch.no_grad():
        peer.play(x, y, torch.tensor([0]))
    assert torch.equal(peer.rows, before)
    sure = SAR(setting(modules, 16))
    sure.rows[:, place.first : place.last] *= 1e3
    with torch.no_grad():
        sure.play(x, y, torch.tensor([0]))
    assert torch.equal(sure.rows, sure.setting.rows)


def test_tent_moves_norms_alone_unless_told_otherwise(modules):
    x, y = streams(16)
    for everything in (False, True):
        peer = Tent(setting(modules, 16, everything=everything))
        with torch.no_grad():
            peer.play(x, y, torch.tensor([0]))
        moved = (peer.rows != peer.setting.rows)[:, : peer.network.trained]
        assert bool((moved <= (peer.network.columns(norms_only=not everything) > 0)).all())
        assert int(moved[0].sum()) > (12 if everything else 0)


def test_labels_with_replay_teach_what_the_source_does_not_know(modules):
    x, y = streams(480)
    y = (y + 1) % CLASSES  # every class has another name now
    source = play(Unchanged(setting(modules, 16)), x, y, range(3))
    taught = play(RandomReplay(setting(modules, 16, budgets=(0.2,) * 3, factor=10.0)), x, y, range(3))
    assert np.mean(source.accuracy) < 0.2 < np.mean(taught.accuracy)


def test_a_batch_buys_its_best_scores_and_a_single_sample_must_stand_out():
    meter = Meter(torch.tensor([0.25, 0.5]), 4)
    chosen = meter.choose(torch.tensor([[0.1, 0.9, 0.3, 0.2], [0.1, 0.9, -torch.inf, -torch.inf]]))
    assert chosen.tolist() == [[False, True, False, False], [True, True, False, False]]
    single = Meter(torch.tensor([0.1]), 1)
    scores = np.random.default_rng(0).random(2000)
    asked = [bool(single.choose(torch.tensor([[score]], dtype=torch.float32))) for score in scores]
    assert 0.09 * 2000 <= sum(asked) <= 0.1 * 2000
    assert scores[asked].mean() > 0.85


def test_a_memory_holds_the_newest_and_never_what_was_not_chosen():
    memory = Memory(1, torch.zeros(1), size=3)
    for first in (0, 4):
        x = torch.arange(first, first + 4.0).reshape(1, 4, 1)
        memory.add(x, x[..., 0].long(), torch.tensor([[True, False, True, True]]))
    x, y = memory.draw(torch.linspace(0, 0.999, 50)[None])
    assert sorted(set(x.flatten().tolist())) == [4.0, 6.0, 7.0] == sorted(set(y.flatten().double().tolist()))
    assert memory.held().tolist() == [3]


def test_k_margin_takes_the_unsure_and_far_first_and_then_what_is_far_from_it():
    logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [0.0, 0.0]]])
    features = torch.tensor([[[3.0, 0.0], [3.1, 0.0], [50.0, 0.0], [0.0, 2.0]]])
    score = k_margin(logits, features, 2)[0]
    assert score.argsort(descending=True)[:2].tolist() == [1, 3]
    assert torch.isinf(score).tolist() == [True, False, True, False]


def test_new_clusters_are_found_beside_the_old_ones():
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    features = torch.tensor(np.repeat(middles, 5, 0) + 0.1 * rng.normal(size=(15, 2)), dtype=torch.float32)[None]
    anchors = torch.zeros(1, 4, 2)
    args = (torch.ones(1, 15, dtype=torch.bool), anchors, torch.tensor([1]), torch.tensor([2.0]), 3)
    chosen = torch.isfinite(nearest_to_new_clusters(features, *args))[0]
    assert chosen.sum() == 2
    assert chosen[5:10].sum() == chosen[10:].sum() == 1


def test_rounds_must_be_whole_batches(modules):
    with pytest.raises(InputError, match=r"10 rounds are not whole batches of 16; give a multiple of 16"):
        play(Unchanged(setting(modules, 16)), *streams(10), range(3))


def recorded(data_dir=None):
    x, y = digits(700, 5)
    x, y = (x.flatten(1) * 255).round().to(torch.uint8).numpy(), y.numpy().astype(np.int64)
    return Recorded("bars", (1, SIDE, SIDE), (0, 1, 2), 300, {"data_set": "bars"}, x, y, lambda raw: raw / 255.0)


def test_a_thinned_stream_has_the_whole_source_and_rounds_at_equal_distances():
    whole = recorded()
    thin = benchmarks.Thinned(whole, 40)
    assert (thin.rounds, thin.source_size, thin.facts["thinned_from_rows"]) == (40, 300, 400)
    x, y = thin.take(0, 290, 340)
    places = [*range(290, 300), *range(300, 700, 10)]
    every = whole.take(0, 0, 700)
    np.testing.assert_array_equal(x, every[0][places])
    np.testing.assert_array_equal(y, every[1][places])
    np.testing.assert_array_equal(thin.take(0, 303, 305)[0], every[0][[330, 340]])


@pytest.fixture
def bars(monkeypatch, tmp_path):
    """A stream of bars as the only one of the comparison."""
    column = table_columns.TableColumn("bars", "Bars", "none", recorded, network, lambda: Training(3, 50), {})
    monkeypatch.setitem(table_columns.COLUMNS, "bars", column)
    monkeypatch.setattr("osamd.reproduce.networks.user_cache", lambda: tmp_path / "cache")
    monkeypatch.setitem(benchmarks.BENCHMARKS, "bars", benchmarks.Benchmark("Bars", "bars", recorded))
    return column


def test_the_command_compares_the_preset_with_its_peers_on_the_same_rounds(bars, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["--streams", "bars", "--methods", "source,tent,replay-entropy", "--budget", "5%,20%", "--tune"]
    given += ["--rounds", "130", "--seeds", "2", "--device", "cpu", "--out", str(out)]
    assert main(["reproduce", "adaptation", *given]) == 0
    found = json.loads((out / "bars.json").read_text())
    assert (found["rounds"], found["budgets"], found["tuned_on_seeds"]) == (128, [0.05, 0.2], [100, 101])
    assert [(run["method"], run["batch"], run["budget"]) for run in found["peers"]] == [
        ("source", 1, 0.0),
        ("source", 64, 0.0),
        ("tent", 1, 0.0),
        ("tent", 64, 0.0),
        ("replay-entropy", 1, 0.05),
        ("replay-entropy", 1, 0.2),
        ("replay-entropy", 64, 0.05),
        ("replay-entropy", 64, 0.2),
    ]
    preset = {at["budget"]: at["accuracies"] for at in found["preset"]}
    for run in found["peers"]:
        assert run["labels"]["mean"] <= run["budget"] + 1e-9
        for lead in run["preset_minus"]:
            apart = np.subtract(preset[lead["budget"]], run["accuracies"])
            assert lead["mean"] == pytest.approx(apart.mean())
    printed = capsys.readouterr().out
    assert "OSAMD (preset)" in printed
    assert "thinned evenly from 400 rounds" in printed
    shown = report.markdown(found)
    assert "| Tent, no labels | 64 |" in shown
    assert "No method exceeds its budget." in shown
    again = ["--peers", str(out / "bars.json"), "--device", "cpu", "--out", str(tmp_path / "again")]
    assert main(["reproduce", "adaptation", *again]) == 0
    alone = json.loads((tmp_path / "again" / "bars.json").read_text())
    assert alone["run"]["peers"] == found["run"]
    for part in ("preset", "peers", "stream_facts", "tuned_on_seeds"):
        assert alone[part] == found[part]
    assert "seed by seed (CPU; the other peers: CPU)" in report.markdown(alone)
    assert main(["reproduce", "adaptation", *again, "--methods", "source", "--tune"]) == 0
    both = json.loads((tmp_path / "again" / "bars.json").read_text())["peers"]
    assert sorted(both, key=str) == sorted(found["peers"], key=str)
    assert main(["reproduce", "adaptation", *again, "--methods", "source"]) == 2
    assert "must be comparable with those of --methods; add --tune." in capsys.readouterr().err
    (out / "bars.json").write_text(json.dumps(found | {"stream_facts": {"of": "other rows"}}))
    assert main(["reproduce", "adaptation", *again]) == 2
    assert "play the peers again in this run" in capsys.readouterr().err


def test_what_is_no_earlier_comparison_is_refused_in_a_sentence(tmp_path, capsys):
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "words.json").write_text(json.dumps({"rounds": "64"}))
    for given, said in (
        (["--peers", str(tmp_path / "none.json")], "this is no file of `osamd reproduce adaptation`"),
        (["--peers", str(tmp_path / "other.json")], "give STREAM.json of an earlier run"),
        (["--peers", str(tmp_path / "other.json"), "--streams", "portraits"], "leave out --streams"),
        (["--peers", str(tmp_path / "other.json"), "--rounds", "64"], "leave out --rounds"),
        (["--peers", str(tmp_path / "words.json")], "rounds is '64'"),
    ):
        assert main(["reproduce", "adaptation", *given]) == 2
        assert said in capsys.readouterr().err


def test_the_paper_s_own_setting_is_the_first_that_tuning_tries(modules):
    stacked = StackedNetwork(modules[0])
    assert comparison.grid(Tent, stacked)[0] == Choice(1.0, True, False)
    assert len(comparison.grid(Tent, stacked)) == 3 * 2 * 2
    assert comparison.grid(Unchanged, stacked) == [Choice(1.0, False), Choice(1.0, True)]


def test_the_bank_of_a_seed_does_not_depend_on_its_company():
    assert torch.equal(bank_of([3, 5])[1], bank_of([5])[0])
    assert bank_of([3]).shape == (1, BANK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["adaptation", "--streams", "mnits"], "`--streams mnits`: no such name"),
        (["adaptation", "--methods", "tend"], "`--methods tend`: no such name. Did you mean 'tent'?"),
        (["adaptation", "--settings", "paper"], "only streams of real data take this option"),
        (["adaptation", "--workers", "2"], "networks are not spread over processes"),
        (
            ["rotating-gaussian", "--tune"],
            "`reproduce rotating-gaussian --tune`: only reproduce adaptation takes this option",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(given, said, capsys):
    assert main(["reproduce", *given]) == 2
    assert said in capsys.readouterr().err


def test_the_samples_of_a_comparison_are_those_of_the_columns(bars):
    ready = benchmarks.prepare(
        benchmarks.BENCHMARKS["bars"], 64, [0, 1], torch.device("cpu"), None, column_fleets.silent()
    )
    assert ready.samples.x.shape == (1, 64, 1, SIDE, SIDE)
    assert [ready.row(number) for number in range(2)] == [0, 0]
    assert all(len(y) == 300 for _, y in ready.memories)
