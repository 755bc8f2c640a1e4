"""The fleets that play one column of Table 1: samples, networks trained on the source, and what each run gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.accounting.budget import budget
from osamd.accounting.steering import open_book
from osamd.numerics import Array
from osamd.paper.methods import KNOWN, METHODS, PRESET, Settings
from osamd.preset import arbiter
from osamd.reporting.terminal import Stages
from osamd.reproduce.table_columns import TableColumn
from osamd.streams import RealStream
from osamd.streams.base import query_generator

if TYPE_CHECKING:
    import torch
    from torch import nn

    from osamd.fleet.fleet import Fleet, Playing, Samples
    from osamd.fleet.play import FleetRun
    from osamd.fleet.preset_fleet import PresetFleet

CURVE_POINTS = 1000
"""Points of the accumulated loss that are kept for the figure."""


def curve_rounds(rounds: int) -> NDArray[np.int64]:
    """The rounds, counted from 1, at which the accumulated loss is kept; the last is one of them."""
    return np.unique(np.linspace(1, rounds, min(rounds, CURVE_POINTS)).astype(np.int64))


class NetworkRun(NamedTuple):
    """What one run reports: fractions of the rounds, and the accumulated loss at `curve_rounds`."""

    accuracy: float
    labels: float
    pseudolabel_error_rate: float
    loss: Array


class FleetPhase(NamedTuple):
    """What one fleet of an experiment gave."""

    runs: dict[tuple[str, int], NetworkRun]
    """By method and seed."""
    stopped: list[str]
    """A sentence for each run that stopped."""
    engine: str
    rounds: int
    seconds: float


def silent() -> Stages:
    """Stages that show nothing."""
    return Stages(lambda stage, total: None, lambda done: None)


def load_samples(stream: RealStream, seeds: Sequence[int], rounds: int) -> Samples:
    """The first rounds for every seed; a stream that is the same for all seeds is held once."""
    import torch

    from osamd.fleet.fleet import Samples

    drawn = seeds if stream.drawn_by_seed else seeds[:1]
    blocks = [stream.take(seed, stream.source_size, stream.source_size + rounds) for seed in drawn]
    x = torch.stack([torch.from_numpy(x).float() for x, _ in blocks])
    y = torch.stack([torch.from_numpy(y) for _, y in blocks])
    u = torch.stack([torch.from_numpy(query_generator(seed).random(stream.rounds)[:rounds]) for seed in seeds])
    return Samples(x.unflatten(2, stream.shape), y, u)


def pretrain(
    column: TableColumn, stream: RealStream, seeds: Sequence[int], device: torch.device, stages: Stages
) -> list[nn.Module]:
    """The network after training on the source, one for every seed."""
    from osamd.reproduce.networks import pretrained

    training = column.training()
    stages.start(f"{column.title}: training on the source", len(seeds) * training.epochs)
    epochs = 0

    def epoch() -> None:
        nonlocal epochs
        epochs += 1
        stages.done(epochs)

    return [
        pretrained(column.network, training, partial(source_of, stream, seed), seed, device, stream.facts, epoch)
        for seed in seeds
    ]


def source_of(stream: RealStream, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The labelled source samples of a seed, in the shape the network takes."""
    import torch

    x, y = stream.source(seed=seed)
    return torch.from_numpy(x).float().unflatten(1, stream.shape), torch.from_numpy(y)


def first_memory(stream: RealStream, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The source samples of a seed that the preset's memory begins with."""
    from osamd.fleet.pair import places_for
    from osamd.fleet.preset_fleet import remembered

    x, y = source_of(stream, seed)
    drawn = remembered(len(y), places_for(stream.shape), seed)
    return x[drawn], y[drawn]


def _row_numbers(stream: RealStream, seed: int) -> tuple[int, int]:
    """The numbers of a member's rows of samples and of uniforms."""
    return seed if stream.drawn_by_seed else 0, seed


def paper_fleet(
    column: TableColumn,
    stream: RealStream,
    which: str,
    tasks: Sequence[tuple[str, int]],
    rates: Mapping[int, float],
    modules: Sequence[nn.Module],
    device: torch.device,
) -> Fleet:
    """A member for every (method, seed) of `tasks`, with the settings of this name."""
    from osamd.fleet.fleet import Fleet, Member

    chosen = column.settings[which]
    members = [
        Member(modules[s], m, settings_of(chosen[m], m, rates.get(s)), *_row_numbers(stream, s)) for m, s in tasks
    ]
    return Fleet(
        members,
        stream.shape,
        device=device,
        probabilities=column.probabilities,
        batch_statistics=column.batch_statistics(which),
    )


def preset_fleet(
    column: TableColumn,
    stream: RealStream,
    tasks: Sequence[tuple[int, float | None]],
    modules: Sequence[nn.Module],
    device: torch.device,
) -> PresetFleet:
    """The preset for every (seed, budget) of `tasks`, with a memory that begins with samples of the source."""
    from osamd.fleet.preset_fleet import PresetFleet, PresetMember

    members = [PresetMember(modules[s], *_row_numbers(stream, s), first_memory(stream, s)) for s, _ in tasks]
    limits = [arbiter.limits(share, None, arbiter.NETWORK_AUDIT) for _, share in tasks]
    books = np.stack([open_book(budget(rate, floor=floor), 1.0, PRESET.query) for rate, floor in limits])
    return PresetFleet(members, stream.shape, books, device=device, probabilities=column.probabilities)


def play_fleet(
    column: TableColumn,
    fleet: Playing,
    tasks: Sequence[tuple[str, int]],
    samples: Samples,
    stages: Stages,
    checkpoint: Path | None,
    identity: str,
) -> FleetPhase:
    """Play one fleet, whose members are the (method, seed) pairs of `tasks`."""
    from osamd.fleet.play import play

    rounds = samples.y.shape[1]
    stages.start(f"{column.title}: {len(fleet)} models", rounds)
    played = play(fleet, samples, checkpoint=checkpoint, identity=identity, progress=stages.done)
    ended = {stop.member: stop.round for stop in played.stopped}
    stopped = [
        f"{KNOWN[m].title}, seed {s}: its scores were not finite in round {ended[i]}."
        for i, (m, s) in enumerate(tasks)
        if i in ended
    ]
    given = zip(tasks, outcomes(fleet, played, samples), strict=True)
    runs = {task: outcome for task, outcome in given if outcome is not None}
    return FleetPhase(runs, stopped, played.engine, played.rounds, played.seconds)


def outcomes(fleet: Playing, played: FleetRun, samples: Samples) -> list[NetworkRun | None]:
    """What the run of every member gave; None for those that stopped."""
    rounds, ended = samples.y.shape[1], {stop.member for stop in played.stopped}

    def outcome(member: int) -> NetworkRun:
        ledger = fleet.ledger(member, played.record, samples.y)
        errors = ledger.pseudolabel_errors / rounds
        loss = ledger.accumulated_loss[curve_rounds(rounds) - 1]
        return NetworkRun(ledger.accuracy, ledger.label_rate, errors, loss)

    return [None if i in ended else outcome(i) for i in range(len(fleet))]


def settings_of(chosen: Settings, method: str, label_rate: float | None) -> Settings:
    """The settings for one method and seed; methods that ask uniformly get the label rate of the margin rule."""
    return replace(chosen, label_rate=label_rate) if METHODS[method].query == "uniform" else chosen
