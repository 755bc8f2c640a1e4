"""Augmentation: images are varied a little each time that the preset for networks learns from them once more.

A remembered image is replayed hundreds of times, and a network soon knows it by heart. So each time it is a little
moved, turned and scaled, its contrast and its light are others, and noise lies over it; its class stays.

Nothing is drawn at random: the amounts of the n-th variation are frac(n a), with the eight numbers a_i = r^-i, where
r^9 = r + 1. They fill their cube evenly at any length, as multiples of the golden ratio fill [0, 1).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from osamd.errors import InputError
from osamd.numerics import Array

LEAST_SIDE = 8
"""The pixels that a side of an image has at least."""
MOST_ASPECT = 2
"""By default, samples whose one side is more than so many times the other are not taken for images."""
MOVE = 2.0 / 28.0
"""The farthest move along each axis, as a share of the side."""
TURN = math.radians(15.0)
"""The largest turn."""
SCALE = 0.15
"""The largest factor in size, in logarithms."""
CONTRAST = 0.5
"""The largest factor of the contrast, in logarithms."""
LIGHT, NOISE = 0.5, 0.5
"""The largest change of the light, and the largest deviation of the noise, in deviations of the image itself."""
AMOUNTS = 8
GRAINS = 1 << 16
"""The length of the table that noise is read from."""
_NOISE = 13  # marks a generator apart from those of streams


def chosen(wanted: bool | None, module: nn.Module, samples: Tensor) -> Augmentation | None:
    """What varies these remembered samples (models x places x shape), if it is wanted.

    By default it is for images of fractions, not much longer than wide, and networks with convolutions.
    """
    images = samples.ndim == 5 and min(samples.shape[3:]) >= LEAST_SIDE and samples.is_floating_point()
    if wanted and not images:
        raise InputError(
            f"`NetworkOSAMD(augment=True)`: a sample has shape {tuple(samples.shape[2:])} and type {samples.dtype};"
            f" only images (channels x height x width) of fractions of at least {LEAST_SIDE} pixels a side are varied."
            " Leave augment out."
        )
    if wanted is None:
        usual = images and max(samples.shape[3:]) <= MOST_ASPECT * min(samples.shape[3:])
        wanted = usual and any(isinstance(part, nn.Conv2d) for part in module.modules())
    return Augmentation(samples.shape[2:].numel(), samples.device, samples.dtype) if wanted else None


def multipliers(count: int) -> Array:
    """The numbers a_i whose multiples fill a cube of so many dimensions evenly.

    >>> multipliers(1).round(6).tolist()
    [0.618034]
    """
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (count + 1))
    return np.array([root ** -(i + 1) for i in range(count)])


class Augmentation:
    """Varies images (models x samples x channels x height x width) of so many numbers each, on one device."""

    def __init__(self, size: int, device: torch.device, dtype: torch.dtype) -> None:
        self._multipliers = torch.from_numpy(multipliers(AMOUNTS)).to(device)
        grains = np.random.default_rng(_NOISE).standard_normal(GRAINS)
        table = torch.from_numpy(np.resize(grains, GRAINS + size)).to(device, dtype)
        self._grains = table.unfold(0, size, 1)
        """A view: its row i begins with grain i."""

    def __call__(self, x: Tensor, number: Tensor) -> Tensor:
        """The images, each varied in its own way; `number` (models) counts the batches of every model."""
        samples = x.shape[1]
        each = number[:, None] * samples + torch.arange(samples, device=number.device)
        amounts = torch.frac(each.flatten()[:, None] * self._multipliers)
        return self.lit(moved(x.flatten(0, 1), amounts[:, :4]), amounts[:, 4:]).view_as(x)

    def lit(self, images: Tensor, amounts: Tensor) -> Tensor:
        """Images (samples x channels x height x width) in another light, and with noise; amounts from 0 to 1."""
        pixels = images.flatten(1)
        contrast, light, noise = amounts[:, :3].to(pixels).T[:, :, None]
        deviation, mean = torch.std_mean(pixels, 1, correction=0, keepdim=True)
        grains = self._grains[(amounts[:, 3] * GRAINS).long()]
        factor = torch.exp(CONTRAST * (2.0 * contrast - 1.0))
        added = LIGHT * (2.0 * light - 1.0) + NOISE * noise * grains
        changed: Tensor = mean + factor * (pixels - mean) + deviation * added
        return changed.view_as(images)


def moved(images: Tensor, amounts: Tensor) -> Tensor:
    """Images moved, turned and scaled, by amounts from 0 to 1; outside, the pixels of the edge go on."""
    height, width = images.shape[2:]
    turn, scale, across, down = (2.0 * amounts - 1.0).to(images.dtype).T[:, :, None, None]
    size = torch.exp(SCALE * scale)
    cosine, sine = size * torch.cos(TURN * turn), size * torch.sin(TURN * turn)
    x, y = (_middles(side, images) for side in (width, height))
    x, y = x[None, None, :], y[None, :, None]  # from -1 to 1 along either side
    places_x = cosine * x - sine * height / width * y + 2.0 * MOVE * across
    places_y = sine * width / height * x + cosine * y + 2.0 * MOVE * down
    places = torch.stack([places_x, places_y], 3)
    taken: Tensor = functional.grid_sample(images, places, padding_mode="border", align_corners=False)
    return taken


def _middles(side: int, images: Tensor) -> Tensor:
    """The middles of the pixels along a side that reaches from -1 to 1."""
    return (2.0 * torch.arange(side, dtype=images.dtype, device=images.device) + 1.0) / side - 1.0
