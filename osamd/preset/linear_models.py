"""What linear models share: one row of weights per class with the bias last, and the softmax of their scores."""

from __future__ import annotations

import math
from typing import Any

from osamd.preset.sums import score


def scores_into(weights: Any, x: Any, scores: Any) -> None:
    """One score per class."""
    for c in range(scores.shape[0]):
        scores[c] = score(weights[c], x)


def softmax_in_place(scores: Any, sharpness: float) -> None:
    most = scores[0]
    for c in range(1, scores.shape[0]):
        most = max(most, scores[c])
    total = 0.0
    for c in range(scores.shape[0]):
        scores[c] = 1.0 if scores[c] == most else math.exp(sharpness * (scores[c] - most))  # exp(0) takes time too
        total += scores[c]
    for c in range(scores.shape[0]):
        scores[c] /= total


def evenly(shares: Any) -> None:
    """Give all classes the same probability; compiled code takes longer for an assignment to a whole array."""
    for c in range(shares.shape[0]):
        shares[c] = 1.0 / shares.shape[0]
