"""How the methods spend their labels: a meter that never exceeds the budget, and a memory of labelled samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from osamd.fleet.pair import places_for

WINDOW = 128
"""Recent scores against which a batch of one sample is compared."""


class Meter:
    """At any time at most the share `budget` of the samples seen has been labelled; unspent labels are kept.

    A batch buys the labels of its best samples by score. A batch of one sample has no others to be compared with, so it
    must also exceed the (1 - c budget) quantile of the last WINDOW scores, where c >= 1 is the number of labels in
    hand: labels that were not spent lower the bar.
    """

    def __init__(self, budget: Tensor, batch: int) -> None:
        self.budget, self.batch = budget.double(), batch
        self.asked, self.seen = torch.zeros_like(self.budget), torch.zeros_like(self.budget)
        self.recent = torch.full((len(budget), WINDOW), -torch.inf, device=budget.device)
        self.changing = [self.asked, self.seen, self.recent]
        self.most = min(batch, math.ceil(float(budget.max()) * batch) + 1)
        """The most labels that one batch buys: its own share, and one that was not spent before."""

    def in_hand(self) -> Tensor:
        """The number of labels that may be bought now, (models,), the batch at hand included."""
        return torch.floor(self.budget * (self.seen + self.batch) - self.asked + 1e-9)

    def choose(self, score: Tensor) -> Tensor:
        """Which samples of the batch (models x batch) are labelled; a score of -inf is never chosen."""
        credit = self.in_hand()
        rank = score.argsort(dim=1, descending=True, stable=True).argsort(1)
        chosen = (rank < credit[:, None].clamp(max=self.most)) & (score > -torch.inf)
        if self.batch == 1:
            share = self.budget * credit.clamp(min=1.0)
            place = torch.floor((1.0 - share) * WINDOW).long().clamp(0, WINDOW - 1)
            chosen &= score >= self.recent.sort(1).values.gather(1, place[:, None])
        self.recent.copy_(torch.cat([self.recent, score.to(self.recent)], 1)[:, -WINDOW:])
        self.count(chosen)
        return chosen

    def count(self, chosen: Tensor) -> None:
        """Enter a batch and the labels it bought."""
        self.asked.add_(chosen.sum(1))
        self.seen.add_(self.batch)


class Memory:
    """Samples with their classes, at most `size` per model; a new one replaces the oldest."""

    def __init__(self, models: int, example: Tensor, size: int | None = None) -> None:
        """`example` gives shape, dtype and device of a sample; by default the memory is as large as the preset's."""
        self.size = size = size or places_for(tuple(example.shape))
        self.samples = torch.zeros(models, size + 1, *example.shape, dtype=example.dtype, device=example.device)
        self.labels = torch.zeros(models, size + 1, dtype=torch.long, device=example.device)
        self.count = torch.zeros(models, dtype=torch.long, device=example.device)
        self.changing = [self.samples, self.labels, self.count]
        self._each = torch.arange(models, device=example.device)[:, None]

    def places(self, chosen: Tensor) -> Tensor:
        """Where the chosen of a batch (models x samples) go; the others go to a last place, which is never read."""
        order = self.count[:, None] + chosen.long().cumsum(1) - 1
        return torch.where(chosen, order % self.size, self.size)

    def add(self, x: Tensor, y: Tensor, chosen: Tensor) -> Tensor:
        """Remember the chosen samples of a batch, and return their places."""
        places = self.places(chosen)
        self.samples[self._each, places] = x
        self.labels[self._each, places] = y
        self.count.add_(chosen.sum(1))
        return places

    def held(self) -> Tensor:
        """How many samples each model remembers, (models,)."""
        return self.count.clamp(max=self.size)

    def draw(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Remembered samples and their classes, one per uniform number (models x draws); zeros where none is held."""
        places = (uniform * self.held()[:, None]).long()
        return self.samples[self._each, places], self.labels[self._each, places]
