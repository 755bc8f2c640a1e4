"""A network for `osamd.asktell`: a fleet of one, with the book of its budget and the meter of its accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from osamd import budget as budgets
from osamd import honest
from osamd.errors import InputError
from osamd.fleet.fleet import Fleet
from osamd.fleet.round import Decision as RoundDecision
from osamd.numerics import Array


class NetworkCore:
    """A fleet of one; samples are batches of one, in memory of their own."""

    def __init__(self, fleet: Fleet, book: Array, meter: Array, probabilities: bool) -> None:
        self.fleet, self.book, self.meter = fleet, book, meter
        self._probabilities = probabilities
        self._row: Tensor
        self._said: RoundDecision

    def observe(self, sample: Tensor, u: float) -> Any:
        label, query, pseudolabel, margin, probability, withheld, _, score = seen = self._see(sample, u)
        if label < 0:
            return seen
        budgets.enter(self.book, margin, probability, query)
        expected = honest.expect(self.meter, margin, probability, query, label, pseudolabel)
        return label, query, pseudolabel, margin, probability, withheld, expected, score

    def peek(self, sample: Tensor) -> Any:
        return self._see(sample, 1.0)

    def _see(self, sample: Tensor, u: float) -> Any:
        sigma, floor, withheld = budgets.terms(self.book)
        with quietly():
            self.fleet.rates.sigma.fill_(sigma)
            self.fleet.rates.floor.fill_(floor)
            drawn = torch.tensor([u], dtype=torch.float64, device=self.fleet.device)
            try:
                said = self.fleet.round.observe(self.fleet.state, sample, drawn)
            except Exception as error:  # whatever a user's module raises
                why = (str(error).splitlines() or [type(error).__name__])[0]
                raise InputError(f"`ask(x=...)`: the module cannot take this sample ({why}).") from error
            scores = said.scores[0]
            if not bool(torch.isfinite(scores).all() & torch.isfinite(said.margin).all()):
                return -1, False, 0, 0.0, 0.0, 0, 0.0, None
            self._row, self._said = sample, said._replace(heard=None)
            numbers = float(said.margin), float(said.probability), withheld, 0.0, scores.double().cpu().numpy()
            return int(said.label), bool(said.query), int(said.pseudolabel), *numbers

    def learn(self, y: int) -> None:
        with quietly():
            label = torch.tensor([y], device=self.fleet.device)
            self.fleet.round.learn(self.fleet.state, self._row, self._said, label)

    def confirm(self, t: int, probability: float, expected: float, decision: int, pseudolabel: int, y: int) -> None:
        honest.confirm(self.meter, t, probability, expected, decision, pseudolabel, y)

    def copied(self, sample: Tensor) -> Tensor:
        return sample

    def last(self) -> Tensor:
        return self._row

    def refusal(self, sample: Tensor) -> InputError:
        return InputError(
            "`ask`: the scores are not finite: the sample is too large, or the steps have been and the learner is lost;"
            " then load an earlier save or make a new one with a smaller eta and teacher's step."
        )

    def probabilities(self, score: Array) -> list[float]:
        shares = torch.from_numpy(score)
        return list((shares if self._probabilities else torch.softmax(shares, 0)).tolist())

    def stacked(self, samples: list[Tensor]) -> Array:
        stack: Array = torch.cat(samples).cpu().numpy()
        return stack

    def unstacked(self, samples: Array, i: int) -> Tensor:
        return torch.from_numpy(samples[i : i + 1].copy()).to(self.fleet.device)

    def arrays(self) -> dict[str, Array]:
        return {name: rows.cpu().numpy().copy() for name, rows in self.fleet.state._asdict().items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        for name, rows in self.fleet.state._asdict().items():
            rows.copy_(torch.from_numpy(arrays[name]))


@contextmanager
def quietly() -> Iterator[None]:
    """Without recording gradients, and outside of inference mode, whose tensors cannot be used later."""
    with torch.inference_mode(False), torch.no_grad():
        yield
