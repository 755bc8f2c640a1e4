"""The columns of Table 1 on real data: their streams, networks and training, and two named sets of settings each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osamd.paper.losses import loss
from osamd.paper.methods import InnerLoops, Settings, experiments_step
from osamd.streams import RealStream, cover_type, portraits, rotating_mnist

if TYPE_CHECKING:
    from torch import nn

    from osamd.reproduce.networks import Training


@dataclass(frozen=True)
class TableColumn:
    """One column of Table 1 and its panel of Figure 2."""

    name: str
    title: str
    figure: str
    stream: Callable[..., RealStream]
    network: Callable[[], nn.Module]
    training: Callable[[], Training]
    settings: Mapping[str, Settings]
    probabilities: bool = False
    """Whether the network ends in a softmax, so that its scores are probabilities."""
    batch_statistics: str = "training"
    """What BatchNorm normalises by while the paper's methods play: the statistics of the training, or of the sample."""


def settings(
    eta: float, sigma: float, cap: float, scale: float, loops: int, inner_rate: float, label_rate: float | None = None
) -> Settings:
    """Settings in the appendix's terms: tau = min{cap, scale max(0, 1 - Psi)}, cross-entropy."""
    return Settings(
        eta=eta,
        sigma=sigma,
        loss=loss("softmax"),
        teacher=experiments_step(cap=cap, scale=scale),
        adaptation=InnerLoops(loops, inner_rate),
        label_rate=label_rate,
    )


def described(chosen: Settings) -> dict[str, Any]:
    """The settings as results.json holds them."""
    loops = chosen.adaptation
    assert loops is not None
    return {
        "eta": chosen.eta,
        "sigma": chosen.sigma,
        "tau": {"cap": chosen.teacher.cap, "scale": chosen.teacher.scale, "margin": chosen.teacher.target},
        "inner_loops": loops.number,
        "inner_rate": loops.rate,
        "loss": chosen.loss.name,
        "geometry": chosen.geometry.name,
        "uniform_label_rate": "of the margin rule on the same seed",
    }


def _mnist_network() -> nn.Module:
    from osamd.reproduce.networks import convolutional

    return convolutional(28, 10)


def _portraits_network() -> nn.Module:
    from osamd.reproduce.networks import convolutional

    return convolutional(32, 2)


def _cover_type_network() -> nn.Module:
    from osamd.reproduce.networks import feedforward

    return feedforward(54, 2)


def _training(epochs: int, batch: int) -> Callable[[], Training]:
    def made() -> Training:
        from osamd.reproduce.networks import Training

        return Training(epochs, batch)

    return made


# The rate of the inner loops is not given in the paper; 0.1 goes 65 % of the way to the minimum in 10 loops.
COLUMNS = {
    column.name: column
    for column in (
        TableColumn(
            "rotating-mnist",
            "Rotating MNIST",
            "figure2b",
            rotating_mnist,
            _mnist_network,
            _training(epochs=5, batch=100),
            {
                "paper": settings(5e-6, 0.2, cap=0.006, scale=0.0027, loops=10, inner_rate=0.1),
                "tuned": settings(1e-4, 0.0662, cap=0.0022, scale=0.001, loops=10, inner_rate=0.3),
            },
        ),
        TableColumn(
            "portraits",
            "Portraits",
            "figure2c",
            portraits,
            _portraits_network,
            _training(epochs=20, batch=32),
            {
                "paper": settings(1e-6, 0.15, cap=0.0025, scale=0.0012, loops=20, inner_rate=0.1),
                "tuned": settings(2.5e-5, 0.1571, cap=3.3e-5, scale=1.5e-5, loops=20, inner_rate=0.1),
            },
        ),
        TableColumn(
            "cover-type",
            "Cover-Type",
            "figure2d",
            cover_type,
            _cover_type_network,
            _training(epochs=5, batch=256),
            {
                "paper": settings(1.5e-6, 0.005, cap=0.02, scale=0.01, loops=5, inner_rate=0.1),
                "tuned": settings(3e-5, 0.00921, cap=0.132, scale=0.06, loops=5, inner_rate=0.3),
            },
            probabilities=True,
        ),
    )
}
