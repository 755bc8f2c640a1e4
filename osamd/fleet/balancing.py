"""Self-training that is balanced: it keeps the classes as frequent as they are among the samples of the source."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from osamd.fleet.pair import SELF

BALANCED = 1.0
"""The weight of balanced self-training, relative to a label; the page on this learner has the trials."""
MOST_OFTEN = 4.0
"""A recent sample counts at most so many times."""
PRIOR = 4.0
"""The recent pseudolabels are counted as if there had been so many more of every class, in the source's shares."""
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def suits(module: nn.Module) -> bool:
    """Whether self-training of this module is balanced, where the source's shares of the classes are known."""
    return any(isinstance(part, CONVOLUTIONS) for part in module.modules())


def shares(labels: Tensor, classes: int) -> Tensor:
    """The shares of the classes among the source's samples; no class has a share of 0."""
    counts = torch.bincount(labels, minlength=classes).double() + 1.0
    return counts / counts.sum()


def weights(recent: Tensor, expected: Tensor, steps: Tensor) -> Tensor:
    """The weight of self-training for every class, (models x classes), after so many steps of each model.

    `recent` holds the recent pseudolabels, and `expected` the source's shares, or 0 where they are not known. The
    shares among the pseudolabels are taken PRIOR samples of each class towards the expected ones, so that no class
    weighs too much by chance; with hundreds of classes little of the balance remains.
    """
    counted = (recent >= 0) & (torch.arange(recent.shape[1], device=recent.device) < steps[:, None])
    counts = torch.zeros_like(expected).scatter_add_(1, recent.clamp(min=0), counted.to(expected))
    prior = PRIOR * expected.shape[1]
    found = (counts + prior * expected) / (counts.sum(1, keepdim=True) + prior)
    often = (expected / found.clamp(min=torch.finfo(found.dtype).tiny)).clamp(max=MOST_OFTEN)
    return torch.where(expected > 0.0, BALANCED * often, SELF)
