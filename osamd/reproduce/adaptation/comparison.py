"""The preset and its peers on the same rounds of one stream, at the same shares of labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from osamd.errors import InputError, lookup
from osamd.paper.methods import PRESET
from osamd.reporting.terminal import Stages
from osamd.reproduce.adaptation.benchmarks import BENCHMARKS, Benchmark, Prepared, prepare
from osamd.reproduce.column_fleets import NetworkRun, outcomes, preset_fleet, silent

if TYPE_CHECKING:
    from osamd.reproduce.adaptation.lockstep import Shares
    from osamd.reproduce.adaptation.peer import Choice, Peer
    from osamd.reproduce.adaptation.stacked_network import StackedNetwork

BATCH = 64
"""The batch size at which the papers on ImageNet-C compare; SimATTA has 100 and HILTTA up to 200 elsewhere."""
SIZES = (1, BATCH)
TUNING_SEEDS = (100, 101)
FACTORS = (1.0, 0.1, 10.0)
"""The factors on a paper's learning rate that the tuning tries; the first wins where they are equal."""


class PeerRun(NamedTuple):
    """A method at one batch size and one budget (0 without labels), with a share per seed."""

    method: str
    batch: int
    budget: float
    choice: Choice
    shares: Shares


class Comparison(NamedTuple):
    """Everything that was played on one stream."""

    name: str
    benchmark: Benchmark
    rounds: int
    seeds: int
    budgets: Sequence[float]
    tuned: bool
    facts: Mapping[str, Any]
    preset: Mapping[float, Sequence[NetworkRun | None]]
    """By budget, one run per seed."""
    peers: Sequence[PeerRun]
    device: str
    seconds: float


def compare(
    name: str,
    budgets: Sequence[float],
    seeds: int,
    rounds: int,
    *,
    methods: Sequence[str] | None = None,
    tune: bool = False,
    device: str | None = None,
    data_dir: str | Path | None = None,
    stages: Stages | None = None,
) -> Comparison:
    """Play the preset and every peer on seeds 0, ..., seeds - 1 of a stream thinned to `rounds`.

    `methods` names the peers, by default all that fit the stream; none are played if it is empty. With `tune`, each
    method takes, at each batch size, the setting that is best on the TUNING_SEEDS, at the middle budget; otherwise it
    takes that of its paper. The preset has nothing to tune.
    """
    import torch

    from osamd.fleet.devices import device_named
    from osamd.reproduce.adaptation.registry import PEERS

    benchmark = lookup("compare", "name", name, BENCHMARKS)
    named = None if methods is None else [lookup("compare", "methods", method, PEERS) for method in methods]
    rounds = rounds // BATCH * BATCH
    if rounds < BATCH or not budgets:
        raise InputError(
            f"`compare(rounds={rounds}, budgets={list(budgets)})`: give {BATCH} rounds or more, and a budget."
        )
    on = device_named(device or ("cuda" if torch.cuda.is_available() else "cpu"), f"device {device}")
    stages = stages or silent()
    started = time.perf_counter()
    ready = prepare(benchmark, rounds, range(seeds), on, data_dir, stages)
    unreported = prepare(benchmark, rounds, TUNING_SEEDS, on, data_dir, stages) if tune else None
    images = len(ready.stream.shape) == 3
    fitting = [peer for peer in PEERS.values() if images or not peer.images_only]
    played = []
    for peer, batch in product(fitting if named is None else named, SIZES):
        choice = grid(peer, _network(ready))[0]
        if unreported is not None:
            choice = tuned(peer, unreported, batch, sorted(budgets)[len(budgets) // 2], on, stages)
        played += _play(peer, ready, batch, budgets if peer.labelled else (0.0,), choice, on, stages)
    preset = _preset(ready, budgets, on, stages)
    machine = torch.cuda.get_device_name(on) if on.type == "cuda" else "CPU"
    return Comparison(
        name,
        benchmark,
        rounds,
        seeds,
        budgets,
        tune,
        ready.stream.facts,
        preset,
        played,
        machine,
        time.perf_counter() - started,
    )


def _network(ready: Prepared) -> StackedNetwork:
    from osamd.reproduce.adaptation.stacked_network import StackedNetwork

    return StackedNetwork(ready.modules[0])


def grid(peer: type[Peer], network: StackedNetwork) -> list[Choice]:
    """The settings that are tried, that of the paper first: learning rates, and what else makes a difference here.

    Norms may use either kind of statistics, and methods whose papers adapt norms alone may adapt all parameters: with
    one norm in the network, or none, the papers' own choice would leave them little to adapt.
    """
    from osamd.reproduce.adaptation.peer import Choice

    factors = FACTORS if peer.rate else FACTORS[:1]
    statistics = (peer.batch_statistics, not peer.batch_statistics) if network.has_norms else (peer.batch_statistics,)
    learning = (False, True) if peer.norms_only else (False,)
    return [Choice(f, s, every) for every, s, f in product(learning, statistics, factors)]


def tuned(peer: type[Peer], ready: Prepared, batch: int, budget: float, device: Any, stages: Stages) -> Choice:
    """The setting with the best mean accuracy over the seeds of `ready`, all settings played in lockstep."""
    choices = grid(peer, _network(ready))
    tasks = [(number, choice, budget) for choice in choices for number in range(len(ready.seeds))]
    shares = _lockstep(peer, ready, batch, tasks, device, stages, "tuning")
    per = len(ready.seeds)
    means = [sum(shares.accuracy[i * per : (i + 1) * per]) for i in range(len(choices))]
    return choices[means.index(max(means))]


def _play(
    peer: type[Peer],
    ready: Prepared,
    batch: int,
    budgets: Sequence[float],
    choice: Choice,
    device: Any,
    stages: Stages,
) -> list[PeerRun]:
    """One run per budget, all budgets and seeds in lockstep."""
    from osamd.reproduce.adaptation.lockstep import Shares

    per = len(ready.seeds)
    tasks = [(number, choice, budget) for budget in budgets for number in range(per)]
    shares = _lockstep(peer, ready, batch, tasks, device, stages)
    parts = [slice(i * per, (i + 1) * per) for i in range(len(budgets))]
    return [
        PeerRun(peer.name, batch, budget, choice, Shares(shares.accuracy[part], shares.labels[part]))
        for budget, part in zip(budgets, parts, strict=True)
    ]


def _lockstep(
    peer: type[Peer],
    ready: Prepared,
    batch: int,
    tasks: Sequence[tuple[int, Choice, float]],
    device: Any,
    stages: Stages,
    what: str = "",
) -> Shares:
    """A model for each task: the number of a seed, a setting and a budget."""
    import torch

    from osamd.reproduce.adaptation.lockstep import play
    from osamd.reproduce.adaptation.peer import Setting, bank_of

    network = _network(ready)
    numbers = [number for number, _, _ in tasks]
    x, y = (torch.stack([ready.memories[n][i] for n in numbers]).to(device) for i in range(2))
    setting = Setting(
        network,
        network.stack([ready.modules[n] for n in numbers]).to(device),
        [choice for _, choice, _ in tasks],
        torch.tensor([budget for _, _, budget in tasks], device=device, dtype=torch.float64),
        bank_of([ready.seeds[n] for n in numbers]).to(device),
        (x, y),
        batch,
    )
    stages.start(" ".join([f"{peer.title}, batches of {batch}:", what, f"{len(tasks)} models"]), ready.stream.rounds)
    samples = ready.samples.to(device)
    return play(peer(setting), samples.x, samples.y, [ready.row(n) for n in numbers], stages.done)


def _preset(
    ready: Prepared, budgets: Sequence[float], device: Any, stages: Stages
) -> dict[float, list[NetworkRun | None]]:
    """The preset on every seed, by budget; all budgets and seeds play in lockstep."""
    from osamd.fleet.play import play

    tasks = [(seed, share) for share in budgets for seed in ready.seeds]
    fleet = preset_fleet(ready.column, ready.stream, tasks, ready.modules, device)
    stages.start(f"{PRESET.title}: {len(fleet)} pairs", ready.stream.rounds)
    runs = outcomes(fleet, play(fleet, ready.samples, progress=stages.done), ready.samples)
    per = len(ready.seeds)
    return {share: runs[i * per : (i + 1) * per] for i, share in enumerate(budgets)}
