"""Small networks and fleets of them for the tests."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from osamd.fleet.engines import by_steps
from osamd.fleet.fleet import Fleet, Member, Samples
from osamd.paper.losses import loss
from osamd.paper.methods import METHODS, InnerLoops, Settings, experiments_step

SETTINGS = Settings(
    eta=0.02,
    sigma=0.3,
    loss=loss("softmax"),
    teacher=experiments_step(cap=0.1, scale=0.05),
    adaptation=InnerLoops(3, 0.2),
    label_rate=0.3,
)


def dense(seed=0, classes=3, softmax=False):
    torch.manual_seed(seed)
    layers = [nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, classes)]
    return nn.Sequential(*layers, *([nn.Softmax(1)] if softmax else [])).eval()


def convolutional(seed=0, classes=3, norm=True, softmax=False):
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=1, padding=1),
        nn.ReLU(),
        nn.Dropout(0.5),
        *([nn.BatchNorm2d(6)] if norm else []),
        nn.Flatten(),
        nn.Linear(6 * 25, classes),
        *([nn.Softmax(1)] if softmax else []),
    ).eval()
    if norm:
        with torch.no_grad():
            module[5].running_mean.uniform_(-1, 1)
            module[5].running_var.uniform_(0.5, 2)
            module[5].weight.uniform_(0.5, 1.5)
            module[5].bias.normal_()
    return module


SHAPES = {"dense": (5,), "convolutional": (1, 9, 9)}


def samples(shape, rounds, classes=3, streams=1, seeds=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Samples(
        torch.randn(streams, rounds, *shape, generator=generator, dtype=torch.float64),
        torch.randint(0, classes, (streams, rounds), generator=generator),
        torch.rand(seeds, rounds, generator=generator, dtype=torch.float64),
    )


def members(make, settings=SETTINGS, seeds=1, methods=METHODS):
    return [Member(make(seed), m, settings, 0, seed) for m in methods for seed in range(seeds)]


def played(some, shape, seen, rounds=None, probabilities=False, net=None):
    """A fleet of float64 that has played, and its record in the order of its members."""
    fleet = Fleet(some, shape, net=net, probabilities=probabilities, dtype=torch.float64)
    rounds = rounds or seen.y.shape[1]
    record = fleet.record(rounds)
    by_steps(fleet, seen, record)(0, rounds)
    return fleet, record


def with_loss(name, l2=0.0, free_bias=True, **others):
    return replace(SETTINGS, loss=loss(name, l2=l2, free_bias=free_bias), **others)
