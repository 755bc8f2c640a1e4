"""A network for `osamd.learner.ask_tell`: a fleet of one, with the book of its budget and the meter of its accuracy."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from osamd.accounting import accuracy as accuracies
from osamd.accounting.book import RATE
from osamd.accounting.meter import NO_SOURCE, NOT_GIVEN, ROUNDS
from osamd.checks import require_shaped, require_that, require_within
from osamd.errors import InputError
from osamd.fleet import pair
from osamd.fleet.calling import said
from osamd.fleet.devices import threads_for
from osamd.fleet.engines import halves
from osamd.fleet.fleet import Fleet
from osamd.fleet.preset_fleet import PresetFleet
from osamd.fleet.round import FleetDecision
from osamd.learner.cores.earlier_networks import up_to_date
from osamd.learner.decision import Observation, Said, counting, refused
from osamd.numerics import Array
from osamd.preset.arbiter import HEAD_START, POWER
from osamd.preset.sound_state import check_arbiter


class NetworkSamples(ABC):
    """What the cores of networks share: a fleet of one, whose samples are batches of one."""

    fleet: Any
    book: Array
    meter: Array
    remedy: str
    """What to change when the learner is spoilt."""
    _row: Tensor
    _kind: torch.dtype
    """The type of the samples."""

    _score: Any

    def observe(self, sample: Tensor, u: float) -> Observation:
        seen = _count(self, self.book, self.meter, self.fitted(sample), u)
        return Observation._make((*seen, None if seen[0] < 0 else self._score))

    @abstractmethod
    def decide(self, sample: Tensor, u: float, sigma: float, floor: float) -> Said:
        """What the networks say about a sample; the sample and its score are kept."""

    def await_labels(self, samples: Iterable[Tensor]) -> None:  # noqa: B027
        """Networks ask without regard to the labels that are pending."""

    @abstractmethod
    def learn(self, y: int, weight: float = 0.0) -> None:
        """The second half, for the sample observed last."""

    @abstractmethod
    def probabilities(self, score: Array) -> list[float]:
        """The probabilities of the classes, from the score of a decision."""

    def confirm(self, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> None:
        accuracies.confirm(self.meter, t, probability, expected, decision, pseudolabel, y)

    def copied(self, sample: Tensor) -> Tensor:
        return sample

    def last(self) -> Tensor:
        """The sample observed last, which is about to be kept: now there must be room for its length."""
        self.lengthen(self._row.shape[-1])
        return self.fitted(self._row)

    def refusal(self, sample: Tensor) -> InputError:
        return InputError(
            "`ask`: the scores are not finite: the sample is too large, or the steps were too large and have spoilt the"
            f" learner; then load an earlier save or make a new learner with {self.remedy}."
        )

    def stacked(self, samples: list[Tensor]) -> Array:
        stack: Array = torch.cat([self.fitted(sample) for sample in samples]).cpu().numpy()
        return stack

    def unstacked(self, samples: Array, i: int) -> Tensor:
        return torch.from_numpy(samples[i : i + 1].copy()).to(self.fleet.device)

    def fitted(self, row: Tensor) -> Tensor:
        """A row that is as long as those remembered, where rows differ in length (`osamd.learner.several_parts`)."""
        missing = self.fleet.sample[-1] - row.shape[-1]
        return functional.pad(row, (0, missing)) if missing > 0 else row

    def lengthen(self, length: int) -> None:
        """Make room for rows of this length."""
        missing = length - self.fleet.sample[-1]
        if missing > 0:
            self.fleet.sample = (length,)
            state = self.fleet.state
            if isinstance(self.fleet, PresetFleet):
                self.fleet.state = state._replace(samples=functional.pad(state.samples, (0, missing)))

    def arrays(self) -> dict[str, Array]:
        return {name: rows.cpu().numpy().copy() for name, rows in self._kept().items()}

    def no_samples(self) -> Array:
        """An empty stack of samples."""
        none: Array = torch.zeros(0, *self.fleet.sample, dtype=self._kind).numpy()
        return none

    def restore(self, arrays: dict[str, Array]) -> None:
        for name, rows in self._kept().items():
            rows.copy_(torch.from_numpy(require_shaped(arrays, name, rows.cpu().numpy())))

    def _kept(self) -> dict[str, Tensor]:
        """The tensors to save; the book is saved separately, as for every learner."""
        return {name: tensor for name, tensor in self.fleet.kept().items() if name != "books"}


class NetworkCore(NetworkSamples):
    """A method of the paper."""

    remedy = "a smaller eta and teacher's step"

    def __init__(
        self, fleet: Fleet, book: Array, meter: Array, probabilities: bool, kind: torch.dtype = torch.float32
    ) -> None:
        self.fleet, self.book, self.meter, self._kind = fleet, book, meter, kind
        self._probabilities = probabilities
        self._said: FleetDecision

    def decide(self, sample: Tensor, u: float, sigma: float, floor: float) -> Said:
        with quietly():
            self.fleet.rates.sigma.fill_(sigma)
            self.fleet.rates.floor.fill_(floor)
            drawn = torch.tensor([u], dtype=torch.float64, device=self.fleet.device)
            with taking():
                said = self.fleet.round.observe(self.fleet.state, sample, drawn)
            scores = said.scores[0]
            if not bool(torch.isfinite(scores).all() & torch.isfinite(said.margin).all() & sample.isfinite().all()):
                return refused()
            self._row, self._said, self._score = sample, said._replace(heard=None), scores.double().cpu().numpy()
            margin, label, pseudolabel = float(said.margin), int(said.label), int(said.pseudolabel)
            query, probability = bool(said.query), float(said.probability)
        return Said(label, query, pseudolabel, margin, probability, margin, NO_SOURCE, NOT_GIVEN)

    def learn(self, y: int, weight: float = 0.0) -> None:
        with quietly():
            label = torch.tensor([y], device=self.fleet.device)
            self.fleet.round.learn(self.fleet.state, self._row, self._said, label)

    def probabilities(self, score: Array) -> list[float]:
        shares = torch.from_numpy(score)
        return list((shares if self._probabilities else torch.softmax(shares, 0)).tolist())


class PresetNetworkCore(NetworkSamples):
    """The preset, whose fleet holds the book of its budget."""

    remedy = "samples of the scale that the network was trained on"

    def __init__(self, fleet: PresetFleet, meter: Array) -> None:
        self.fleet, self.meter = fleet, meter
        self._orders = torch.zeros_like(fleet.orders, device="cpu")
        self._arbiter, self._counts, self.book = (rows[0].numpy() for rows in fleet.numbers)
        self._kind = fleet.state.samples.dtype
        self._work = fleet.work()[0].numpy()
        self._seen = pair.seen_in(self._work, fleet.classes)
        self._compiled = pair.compiled()
        self._see, self._descend = halves(fleet)
        self._said = (0, 0)
        self._size = 1.0

    def decide(self, sample: Tensor, u: float, sigma: float, floor: float) -> Said:
        with quietly(), taking(), threads_for(self.fleet.net.held):
            self._see(sample)
        shares, sizes = self.fleet.parts_of(self.fleet.seen.cpu().numpy())
        size = float(sizes[0])  # infinite too where the squares of finite numbers are
        if not (np.isfinite(shares).all() and (math.isfinite(size) or bool(torch.isfinite(sample).all()))):
            return refused()
        self._work[: shares.size] = shares.reshape(-1)
        opinion, source, apart = self._compiled.opine_apart(self._arbiter, self._counts, self._work, u, sigma, floor)
        label, pseudolabel, margin, query, probability = opinion
        self._row, self._said, self._size = sample, (label, pseudolabel), min(size, sys.float_info.max)
        self._score = np.log(np.maximum(self._seen.mixture, 1e-300))
        return Said(label, bool(query), pseudolabel, margin, probability, margin**POWER, source, apart)

    def restore(self, arrays: dict[str, Array]) -> None:
        if "arbiters" not in arrays:
            raise InputError(
                "`load(...)`: the file holds the preset of an earlier version, which had no frozen source; load it with"
                " the osamd that wrote it, or make a new learner around the state_dict() that it gives."
            )
        places = self.fleet.places
        super().restore(up_to_date(arrays, self.fleet))
        rounds, counts = float(self.meter[ROUNDS]), self._counts
        require_within("counts", counts[pair.PLACES], places, places)
        require_within("counts", counts[pair.LABELS], 0, rounds + places, whole=True)
        require_within("counts", counts[pair.STEPS], 0, rounds, whole=True)
        require_within("counts", counts[pair.TAUGHT], 0, counts[pair.STEPS], whole=True)
        require_within("counts", counts[pair.VERIFIED], 0.0, rounds)
        require_within("counts", counts[pair.USUAL], 0.0, np.finfo(np.float64).max)
        require_within("counts", counts[[pair.SURE, pair.KNOWN]], 0.0, 1.0)
        check_arbiter(pair.arbiter_in(self._arbiter), sourced=True)
        labels = self.fleet.state.labels.cpu().numpy()
        require_within("labels", labels, pair.NO_TARGET, self.fleet.classes - 1, whole=True)
        require_within("labels", labels[:, :places], 0, self.fleet.classes - 1, whole=True)
        require_within("expected", self.fleet.state.expected.cpu().numpy(), 0.0, 1.0)
        squares = self.fleet.state.squares.cpu().numpy()
        require_that(np.isfinite(squares) & ~(squares < 0.0), "squares holds numbers that are no squares")
        if not self._kind.is_floating_point:  # a module that embeds has a vocabulary, which it alone knows
            with quietly(), taking():
                self.fleet.net.many(self.fleet.state.rows[:1], self.fleet.state.samples)

    @property
    def believes_teacher(self) -> bool:
        """Whether the arbiter gives the teacher more weight than the student."""
        student, teacher = pair.arbiter_in(self._arbiter).losses
        return bool(teacher + HEAD_START < student)

    def learn(self, y: int, weight: float = 0.0) -> None:
        fleet, rate = self.fleet, float(self.book[RATE])
        orders = self._orders.zero_()
        self._row = self.last()
        arbiter, counts = self._arbiter.copy(), self._counts.copy()
        self._compiled.order(arbiter, counts, self._work, self._said, y, weight, rate, self._size, orders.numpy()[0])
        with quietly(), threads_for(fleet.net.held), taking(SAMPLE if fleet.augmented is None else VARIED):
            fleet.orders.copy_(orders)
            self._descend(self._row)
        self._arbiter[:], self._counts[:] = arbiter, counts

    def probabilities(self, score: Array) -> list[float]:
        return list(np.exp(score).tolist())


def _decided(core: NetworkSamples, sample: Tensor, u: float, sigma: float, floor: float) -> Said:
    return core.decide(sample, u, sigma, floor)


_count = counting(_decided)


SAMPLE = "`ask(x=...)`: the module cannot take this sample ({})."
VARIED = "`tell`: the module cannot take varied images ({}); make the learner with augment=False."


@contextmanager
def taking(fault: str = SAMPLE) -> Iterator[None]:
    """Report whatever a user's module raises as this fault, by default a sample that the module cannot take."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(fault.format(said(error))) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Record no gradients, and leave inference mode, whose tensors cannot be used later."""
    with torch.inference_mode(False), torch.no_grad():
        yield
