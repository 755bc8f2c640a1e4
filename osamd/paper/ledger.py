"""The ledger: one row per round. Everything that is reported is computed from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osamd.numerics import Array


@dataclass(frozen=True)
class Ledger:
    """Columns with one row per round, and, if they were kept, the parameters that decided (rounds x parameters)."""

    label: NDArray[np.int64]
    """The truth y_t, for evaluation; the learner saw it only where `asked`."""
    decision: NDArray[np.int64]
    pseudolabel: NDArray[np.int64]
    margin: Array
    """The teacher's confidence."""
    probability: Array
    """The probability of asking for the label."""
    asked: NDArray[np.bool_]
    loss: Array
    """f(w_t; x_t, y_t), at the parameters that decided."""
    params: Array | None = None

    @staticmethod
    def empty(rounds: int, shape: tuple[int, ...] | None) -> Ledger:
        """A ledger of zeros for `rounds` rounds, with parameters of `shape` unless that is None."""
        return Ledger(
            label=np.zeros(rounds, dtype=np.int64),
            decision=np.zeros(rounds, dtype=np.int64),
            pseudolabel=np.zeros(rounds, dtype=np.int64),
            margin=np.zeros(rounds),
            probability=np.zeros(rounds),
            asked=np.zeros(rounds, dtype=np.bool_),
            loss=np.zeros(rounds),
            params=None if shape is None else np.zeros((rounds, *shape)),
        )

    def __len__(self) -> int:
        return len(self.label)

    @property
    def accuracy(self) -> float:
        """The share of rounds that were decided correctly."""
        return float(np.mean(self.decision == self.label))

    @property
    def balanced_accuracy(self) -> float:
        """The share of rounds that were decided correctly, per class, averaged over the classes that occur."""
        return balanced(self.decision == self.label, self.label)

    @property
    def label_rate(self) -> float:
        """The share of rounds in which the label was asked for."""
        return float(np.mean(self.asked))

    @property
    def pseudolabel_errors(self) -> int:
        """sum_t M_t: the number of rounds in which the teacher was wrong."""
        return int(np.sum(self.pseudolabel != self.label))

    @property
    def accumulated_loss(self) -> Array:
        """sum_{s <= t} f(w_s; x_s, y_s), for every t."""
        return np.cumsum(self.loss)


def balanced(right: NDArray[np.bool_], label: NDArray[np.int64]) -> float:
    """Balanced accuracy: the share of rounds that are `right`, per class, averaged over the classes that occur.

    >>> balanced(np.array([True, True, True, False]), np.array([0, 0, 0, 1]))
    0.5
    """
    return float(np.mean([right[label == index].mean() for index in np.unique(label)]))
