"""The streams of the benchmark, and our settings on each.

>>> x, y = CASES["d=3"].draw()
>>> x.shape, sorted(set(y.tolist()))
((200000, 3), [0, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from osamd.numerics import Array
from osamd.paper.losses import loss
from osamd.paper.methods import Learner, Settings, experiments_step, learner
from osamd.paper.models import linear
from osamd.streams.base import Labels

SEED = 0


@dataclass(frozen=True)
class Case:
    """A drifting stream: Gaussian classes of unit variance whose centres turn, once every `period` rounds.

    Class k has its centre at length (cos a u_k + sin a v_k), with a the angle of the round and u_k, v_k orthonormal and
    drawn at random (for two classes the centres are opposite). The numbers from `eta` on are our settings: the best of
    a small grid on another seed, with a few labels in a hundred.
    """

    name: str
    features: int
    classes: int
    rounds: int
    length: float
    period: int
    eta: float
    sigma: float
    cap: float
    loss: str

    def learner(self) -> Learner:
        """OSAMD with the exact implicit step and no L2 term, from zero."""
        settings = Settings(
            eta=self.eta, sigma=self.sigma, loss=loss(self.loss), teacher=experiments_step(cap=self.cap)
        )
        return learner("osamd", linear(features=self.features, classes=self.classes), settings)

    def draw(self, seed: int = SEED) -> tuple[Array, Labels]:
        """The samples of all rounds, and their class indices."""
        generator = np.random.default_rng([seed, self.features])
        pairs = 1 if self.classes == 2 else self.classes
        basis = np.linalg.qr(generator.normal(size=(self.features, 2 * pairs)))[0].T.reshape(pairs, 2, self.features)
        if self.classes == 2:
            basis = np.concatenate([-basis, basis])
        y = generator.integers(self.classes, size=self.rounds)
        angle = 2.0 * np.pi * np.arange(self.rounds) / self.period
        x = generator.normal(size=(self.rounds, self.features))
        for k in range(self.classes):
            mine = y == k
            turn = np.stack([np.cos(angle[mine]), np.sin(angle[mine])], axis=1)
            x[mine] += self.length * turn @ basis[k]
        return x, y


CASES = {
    case.name: case
    for case in (
        Case("d=3", 3, 2, 200_000, 2.5, 20_000, eta=0.2, sigma=0.2, cap=0.3, loss="hinge"),
        Case("d=54", 54, 2, 100_000, 3.0, 50_000, eta=0.02, sigma=0.2, cap=0.1, loss="hinge"),
        Case("d=784, 10 classes", 784, 10, 20_000, 8.0, 40_000, eta=0.003, sigma=0.1, cap=1.0, loss="hinge"),
    )
}


def write(case: Case, folder: Path) -> Path:
    """Write the stream as x.npy and y.npy into a folder of its own, and give that folder."""
    at = folder / f"{case.features}x{case.classes}"
    at.mkdir(parents=True, exist_ok=True)
    x, y = case.draw()
    np.save(at / "x.npy", x)
    np.save(at / "y.npy", y)
    return at
