"""Fine-tuning on the queried labels with replay: the plain baseline that every active method must beat."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from osamd.errors import InputError
from osamd.fleet.augmentation import Augmentation
from osamd.reproduce.adaptation.peer import Adam, Peer, Played, Setting, cross_entropy, entropy
from osamd.reproduce.adaptation.spending import Memory, Meter

REPLAYED = 32
"""Samples that a step replays, half of them from the source."""
MOST_STEPS = 16


class FineTuning(Peer):
    """Fine-tuning with replay: buy labels, remember them, and learn from what is remembered.

        g = grad mean over REPLAYED of -log p_w(y), half of them labels of the stream, half of them source samples
        w <- w - rate Adam(g)

    A batch takes a quarter as many steps as it has samples, at least one and at most MOST_STEPS. Until the first label
    all replayed samples are the source's. The source samples are those that the preset's memory begins with.
    """

    rate, labelled, batch_statistics = 1e-3, True, False

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.steps = min(MOST_STEPS, max(1, setting.batch // 4))
        self.optimiser = Adam(self.rows, self.network.trained)
        self.meter = Meter(setting.budget, setting.batch)
        x, y = setting.source
        self.source, self.told = (Memory(len(x), x[0, 0]) for _ in range(2))
        self.source.add(x, y, torch.ones_like(y, dtype=torch.bool))
        self.changing += [*self.optimiser.changing, *self.meter.changing, *self.told.changing]

    @abstractmethod
    def score(self, logits: Tensor, t: Tensor) -> Tensor:
        """How much each sample (models x batch) deserves a label."""

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        logits = self.network.logits(self.rows, x, self.own)
        asked = self.meter.choose(self.score(logits, t))
        self.told.add(x, y, asked)
        for step in range(self.steps):
            self._learn(self.uniform(t, 1 + step, REPLAYED), self.steps * t + step)
        return Played(logits.argmax(2), asked)

    def varied(self, x: Tensor, t: Tensor) -> Tensor:
        """The replayed samples of step t as the network sees them."""
        return x

    def _learn(self, u: Tensor, t: Tensor) -> None:
        old, new = (memory.draw(half) for memory, half in zip((self.source, self.told), u.chunk(2, 1), strict=True))
        x, y = self.varied(torch.cat([old[0], new[0]], 1), t), torch.cat([old[1], new[1]], 1)
        weight = torch.ones_like(u)
        weight[:, REPLAYED // 2 :] = (self.told.held() > 0).to(u)[:, None]
        weight = weight / weight.sum(1, keepdim=True)
        gradient = self.slope(lambda rows: (weight * cross_entropy(self.network.logits(rows, x, self.own), y)).sum(1))
        self.descend(self.optimiser.direction(gradient, torch.ones_like(self.rates)), self.columns)


class RandomReplay(FineTuning):
    """Labels of samples drawn at random."""

    name, title, paper = "replay-random", "Fine-tuning, random queries", "with replay"

    def score(self, logits: Tensor, t: Tensor) -> Tensor:
        return self.uniform(t, 0, logits.shape[1])


class EntropyReplay(FineTuning):
    """Labels of the samples with the highest entropy."""

    name, title, paper = "replay-entropy", "Fine-tuning, queries by entropy", "with replay"

    def score(self, logits: Tensor, t: Tensor) -> Tensor:
        return entropy(logits)


class VariedReplay(EntropyReplay):
    """The same, and images vary each time that they are replayed, as those of the preset do."""

    name, title, paper = "replay-varied", "Fine-tuning, queries by entropy, images varied", "with replay"
    images_only = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        sample = setting.source[0][0, 0]
        if sample.ndim != 3:
            raise InputError("`compare(methods=...)`: replay-varied varies images; leave it out for other samples.")
        self.augmented = Augmentation(sample.numel(), sample.device, sample.dtype)

    def varied(self, x: Tensor, t: Tensor) -> Tensor:
        return self.augmented(x, t.expand(len(x)))
