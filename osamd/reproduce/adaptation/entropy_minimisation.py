"""Methods without labels that lower the entropy of their own predictions: Tent and SAR. And the source, left alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from osamd.reproduce.adaptation.peer import Adam, Momentum, Peer, Played, Setting, entropy, mean_over


class Unchanged(Peer):
    """The source network left alone; the tuning tries the batch's statistics (Schneider et al., NeurIPS 2020), too."""

    name, title, paper = "source", "Source network", "left alone"
    rate, batch_statistics = 0.0, False

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        return unasked(self.network.logits(self.rows, x, self.own))


class Tent(Peer):
    """Tent (Wang et al., ICLR 2021): minimise the entropy of the batch over the norms' factors and shifts.

        w <- w - rate Adam(grad mean_i H(p_w(x_i))),   H(p) = -sum_c p_c log p_c

    The decision is that of the pass before the step. Ours to decide: the papers' networks have a BatchNorm after every
    convolution, these have one in all; a network without norms adapts its biases.
    """

    name, title, paper = "tent", "Tent", "Wang et al., ICLR 2021"
    rate, norms_only = 1e-3, True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.optimiser = Adam(self.rows, self.network.trained)
        self.changing += self.optimiser.changing

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        played = unasked(self.network.logits(self.rows, x, self.own))
        gradient = self.slope(lambda rows: entropy(self.network.logits(rows, x, self.own)).mean(1))
        self.descend(self.optimiser.direction(gradient, torch.ones_like(self.rates)), self.columns)
        return played


class SAR(Peer):
    """SAR (Niu et al., ICLR 2023): entropy of reliable samples alone, at the sharpest point nearby, with a way back.

        S  = {i: H(p_w(x_i)) < E0},  E0 = 0.4 log C             reliable samples
        e  = RHO g / |g|,  g = grad mean_S H at w               the sharpest point nearby (Foret et al., 2021)
        S2 = {i in S: H(p_{w+e}(x_i)) < E0}
        w <- w - rate Momentum(grad mean_{S2} H at w + e)       no step if S2 is empty
        m <- 0.9 m + 0.1 mean_{S2} H;  w <- source if m < LEAST

    Ours to decide: LEAST is 0.2 for 1,000 classes, and here scaled by log C, as E0 is. With a batch of one sample the
    paper divides the learning rate by 16; here the factor is tuned.
    """

    name, title, paper = "sar", "SAR", "Niu et al., ICLR 2023"
    rate, norms_only = 2.5e-4, True
    rho = 0.05

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.optimiser = Momentum(self.rows, self.network.trained)
        size = math.log(self.network.classes)
        self.reliable, self.least = 0.4 * size, 0.2 * size / math.log(1000.0)
        self.mean = torch.full_like(self.rates, torch.nan)
        self.changing += [*self.optimiser.changing, self.mean]

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        logits = self.network.logits(self.rows, x, self.own)
        first = entropy(logits) < self.reliable
        gradient = self.columns * self.slope(lambda rows: mean_over(self._entropy(rows, x), first))
        size = torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp(min=1e-12)
        sharp = self.rows.clone()
        sharp[:, : self.network.trained] += self.rho * gradient / size
        after = self._entropy(sharp, x)
        second = first & (after < self.reliable)
        gradient = self.slope(lambda rows: mean_over(self._entropy(rows, x), second), sharp)
        taken = second.any(1, keepdim=True).to(self.rates)
        self.descend(self.optimiser.direction(gradient, taken), self.columns)
        self._recover(mean_over(after, second)[:, None], taken > 0.0)
        return unasked(logits)

    def _entropy(self, rows: Tensor, x: Tensor) -> Tensor:
        return entropy(self.network.logits(rows, x, self.own))

    def _recover(self, value: Tensor, taken: Tensor) -> None:
        """Go back to the source where the mean entropy is too small, which is a sign of collapse."""
        moved = torch.where(torch.isnan(self.mean), value, 0.9 * self.mean + 0.1 * value)
        self.mean.copy_(torch.where(taken, moved, self.mean))
        lost = self.mean < self.least
        self.rows.copy_(torch.where(lost, self.setting.rows, self.rows))
        self.optimiser.reset(lost.to(self.rates))
        self.mean.masked_fill_(lost, torch.nan)


def unasked(logits: Tensor) -> Played:
    """The decisions, with no label used."""
    decision = logits.argmax(2)
    return Played(decision, torch.zeros_like(decision, dtype=torch.bool))
