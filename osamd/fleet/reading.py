"""How the scores of a fleet are read: `osamd.paper.scores` and `osamd.paper.losses` for one row of scores per model.

Scores are (models x classes) with at least two classes. A network with one output H is read as the pair (-H/2, H/2),
whose margin is H, so that Algorithms 1 and 2 coincide here. On a GPU each operation costs the time of its launch, so
there are few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from osamd.errors import InputError
from osamd.paper.losses import LOSSES, Loss


def decide(h: Tensor, binary: bool) -> Tensor:
    """The class that the scores favour; in a tie the first one, or +1 for a binary pair, as in `osamd.paper.scores`."""
    return (h[:, 1] >= h[:, 0]).long() if binary else h.argmax(1)


def pointing(y: Tensor, h: Tensor) -> Tensor:
    """e_y for each model: one-hot labels."""
    return torch.zeros_like(h).scatter_(1, y[:, None], 1.0)


def towards(s: Tensor, y: Tensor, h: Tensor, length: Tensor) -> Tensor:
    """length (e_s - e_y) for each model, where s is not y."""
    far = length[:, None]
    return length.new_zeros(h.shape).scatter_(1, s[:, None], far).scatter_(1, y[:, None], -far)


def margin(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Psi = H^y - max_{s != y} H^s for each model, and that s."""
    best, rival = h.scatter(1, y[:, None], -torch.inf).max(1)
    return h.gather(1, y[:, None])[:, 0] - best, rival


class FleetLoss(NamedTuple):
    """A loss as a function of scores (models x classes)."""

    value: Callable[[Tensor, Tensor], Tensor]
    """By scores and labels."""
    slope: Callable[[Tensor, Tensor], Tensor]
    """By scores and one-hot labels (`pointing`)."""


Phi = Callable[[Tensor], Tensor]

MARGIN_LOSSES: dict[str, tuple[Phi, Phi]] = {
    "hinge": (lambda m: (1.0 - m).clamp(min=0.0), lambda m: -(m < 1.0).to(m.dtype)),
    "squared-hinge": (lambda m: (1.0 - m).clamp(min=0.0) ** 2, lambda m: -2.0 * (1.0 - m).clamp(min=0.0)),
    "smoothed-hinge": (
        lambda m: (1.0 - m).clamp(0.0, 1.0) * ((1.0 - m).clamp(min=0.0) - 0.5 * (1.0 - m).clamp(0.0, 1.0)),
        lambda m: -(1.0 - m).clamp(0.0, 1.0),
    ),
    "logistic": (lambda m: functional.softplus(-m), lambda m: -torch.sigmoid(-m)),
}
"""The margin losses of `osamd.paper.losses`: value and slope at the margin Psi."""


def on_scores(loss: Loss, probabilities: bool) -> FleetLoss:
    """The loss on scores, or on class probabilities if the network gives those: for softmax that is -log p^y."""
    if loss.name == "softmax":
        return FleetLoss(_log_value, _log_slope) if probabilities else FleetLoss(_softmax_value, _softmax_slope)
    if loss.name not in MARGIN_LOSSES:
        known = ", ".join(LOSSES)
        raise InputError(f"`Settings(loss={loss.name!r})`: a fleet has no such loss; use one of {known}.")
    phi, phi_slope = MARGIN_LOSSES[loss.name]

    def value(h: Tensor, y: Tensor) -> Tensor:
        return phi(margin(h, y)[0])

    def slope(h: Tensor, own: Tensor) -> Tensor:
        y = own.argmax(1)
        psi, rival = margin(h, y)
        return towards(rival, y, h, -phi_slope(psi))

    return FleetLoss(value, slope)


def _softmax_value(h: Tensor, y: Tensor) -> Tensor:
    return -torch.log_softmax(h, 1).gather(1, y[:, None])[:, 0]


def _softmax_slope(h: Tensor, own: Tensor) -> Tensor:
    return torch.softmax(h, 1) - own


def _log_value(p: Tensor, y: Tensor) -> Tensor:
    return -torch.log(p.gather(1, y[:, None])[:, 0].clamp(min=torch.finfo(p.dtype).tiny))


def _log_slope(p: Tensor, own: Tensor) -> Tensor:
    """-e_y / p^y, which stays finite if p^y underflows."""
    return -own / p.clamp(min=torch.finfo(p.dtype).tiny)
