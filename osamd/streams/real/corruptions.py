"""Fifteen corruptions of grey images, each in five strengths, written in numpy and scipy alone.

The idea of fifteen kinds in five strengths is that of ImageNet-C (Hendrycks and Dietterich, ICLR 2019), and that of
doing it to digits is MNIST-C's (Mu and Gilmer, 2019); the functions and their constants are our own. An image is (side
x side) with values in [0, 1], and so is what a corruption returns. All randomness is drawn from the generator that is
given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from osamd.errors import InputError, lookup
from osamd.numerics import Array

Corruption = Callable[[Array, int, np.random.Generator], Array]
"""corruption(image, strength, generator), where the strength is a place, from 0 to 4, in the kind's own constants."""

STRENGTHS = 5


def gaussian_noise(image: Array, strength: int, rng: np.random.Generator) -> Array:
    return image + (0.12, 0.2, 0.3, 0.4, 0.5)[strength] * rng.standard_normal(image.shape)


def shot_noise(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """The light of a pixel, and a dim background, arrive as few quanta, and their number varies as Poisson's."""
    quanta = (25.0, 12.0, 7.0, 4.5, 3.0)[strength]
    return rng.poisson((0.9 * image + 0.1) * quanta) / quanta


def impulse_noise(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Some pixels become black or white."""
    hit = rng.random(image.shape) < (0.05, 0.1, 0.17, 0.25, 0.35)[strength]
    return np.where(hit, (rng.random(image.shape) < 0.5).astype(np.float64), image)


def defocus_blur(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """The mean over a disc."""
    from scipy.ndimage import convolve

    radius = (1.2, 1.7, 2.2, 2.7, 3.2)[strength]
    reach = int(np.ceil(radius))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = np.clip(radius + 0.5 - np.hypot(x, y), 0.0, 1.0)
    return np.asarray(convolve(image, disc / disc.sum(), mode="constant"))


def glass_blur(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Every pixel shows a place nearby, drawn at random, and the whole is slightly blurred."""
    reach = (0.8, 1.2, 1.6, 2.0, 2.5)[strength]
    shift = rng.uniform(-reach, reach, (2, *image.shape))
    return _sampled(_softened(image, 0.4), *(_grid(image) + shift))


def motion_blur(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """The mean along a line whose direction is drawn at random."""
    length, angle = (3.0, 4.0, 5.0, 6.0, 7.0)[strength], rng.uniform(0.0, np.pi)
    places = np.linspace(-length / 2.0, length / 2.0, 9)
    y, x = _grid(image)
    moved = [_sampled(image, y + p * np.sin(angle), x + p * np.cos(angle)) for p in places]
    return np.asarray(np.mean(moved, axis=0))


def zoom_blur(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """The mean over enlargements of the image."""
    most = (1.2, 1.3, 1.45, 1.6, 1.75)[strength]
    middle = (len(image) - 1) / 2.0
    y, x = _grid(image) - middle
    zoomed = [_sampled(image, middle + y / zoom, middle + x / zoom) for zoom in np.linspace(1.0, most, 9)]
    return np.asarray(np.mean(zoomed, axis=0))


def snow(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Bright flakes, drawn out in one direction, lie over the image."""
    share, size = (0.02, 0.035, 0.05, 0.07, 0.09)[strength], (0.5, 0.55, 0.6, 0.65, 0.7)[strength]
    flakes = _softened((rng.random(image.shape) < share).astype(np.float64), size)
    flakes = flakes + np.roll(flakes, (1, 1), (0, 1))
    return np.maximum(image, np.clip(1.7 * flakes, 0.0, 1.0))


def frost(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Ice grows over parts of the image: a rough, bright mask with sharp edges hides them."""
    rough = _normal(_cloud(image.shape, rng, 2.0)) + 0.5 * _normal(_cloud(image.shape, rng, 0.7))
    hidden = rough > np.quantile(rough, 1.0 - (0.1, 0.16, 0.22, 0.28, 0.35)[strength])
    ice = 0.45 + 0.4 * rng.random(image.shape)
    return np.where(hidden, 0.25 * image + 0.75 * ice, image)


def fog(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """A cloud, smooth and bright, is mixed with the image."""
    thick = (0.3, 0.4, 0.5, 0.6, 0.68)[strength]
    cloud = np.clip(0.6 + 0.2 * _normal(_cloud(image.shape, rng, 4.0)), 0.0, 1.0)
    return (1.0 - thick) * image + thick * cloud


def brightness(image: Array, strength: int, rng: np.random.Generator) -> Array:
    return image + (0.2, 0.3, 0.4, 0.5, 0.6)[strength]


def contrast(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Values move towards a grey that is brighter than the image."""
    return 0.4 + (0.5, 0.4, 0.3, 0.22, 0.15)[strength] * (image - 0.4)


def elastic(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """A smooth random field bends the image."""
    reach = (0.6, 0.85, 1.1, 1.35, 1.6)[strength]
    shift = np.stack([_normal(_cloud(image.shape, rng, 3.0)) for _ in range(2)])
    return _sampled(image, *(_grid(image) + reach * shift))


def pixelate(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Each pixel shows the mean of its cell, and there are fewer cells than pixels."""
    cells = (16, 13, 11, 9, 8)[strength]
    of = np.arange(len(image)) * cells // len(image)
    mean = (of == np.arange(cells)[:, None]).astype(np.float64)
    mean /= mean.sum(1, keepdims=True)
    return np.asarray((mean @ image @ mean.T)[np.ix_(of, of)])


def block_quantisation(image: Array, strength: int, rng: np.random.Generator) -> Array:
    """Cosine coefficients of 8 x 8 blocks are rounded, the finer ones more coarsely, as in JPEG."""
    from scipy.fft import dctn, idctn

    step = (0.2, 0.35, 0.5, 0.7, 0.9)[strength]
    side = len(image)
    padded = np.pad(image, (0, -side % 8))
    blocks = padded.reshape(len(padded) // 8, 8, -1, 8)
    coarse = step * (1.0 + 0.35 * np.add.outer(np.arange(8), np.arange(8)))[None, :, None, :]
    rounded = np.round(dctn(blocks, axes=(1, 3), norm="ortho") / coarse) * coarse
    return np.asarray(idctn(rounded, axes=(1, 3), norm="ortho").reshape(padded.shape)[:side, :side])


CORRUPTIONS: dict[str, Corruption] = {
    "gaussian noise": gaussian_noise,
    "shot noise": shot_noise,
    "impulse noise": impulse_noise,
    "defocus blur": defocus_blur,
    "glass blur": glass_blur,
    "motion blur": motion_blur,
    "zoom blur": zoom_blur,
    "snow": snow,
    "frost": frost,
    "fog": fog,
    "brightness": brightness,
    "contrast": contrast,
    "elastic": elastic,
    "pixelate": pixelate,
    "block quantisation": block_quantisation,
}


def corrupted(image: Array, kind: str, strength: int, rng: np.random.Generator) -> Array:
    """The image after a corruption of `CORRUPTIONS`, at a strength from 1 to 5, clipped to [0, 1].

    >>> darker = corrupted(np.zeros((28, 28)), "brightness", 1, np.random.default_rng(0))
    >>> float(darker.min()), float(darker.max())
    (0.2, 0.2)
    """
    if strength not in range(1, STRENGTHS + 1):
        raise InputError(f"`corrupted(strength={strength})`: give a strength from 1 to {STRENGTHS}.")
    made = lookup("corrupted", "kind", kind, CORRUPTIONS)(image, strength - 1, rng)
    return np.clip(made, 0.0, 1.0)


def _grid(image: Array) -> Array:
    """The row and the column of every pixel, (2 x side x side)."""
    return np.indices(image.shape).astype(np.float64)


def _sampled(image: Array, y: Array, x: Array) -> Array:
    """The image at these places, linear between pixels and 0 outside."""
    from scipy.ndimage import map_coordinates

    return np.asarray(map_coordinates(image, [y, x], order=1, mode="constant"))


def _softened(image: Array, width: float) -> Array:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(image, width, mode="constant"))


def _cloud(shape: tuple[int, ...], rng: np.random.Generator, width: float) -> Array:
    """Normal noise, smoothed; it wraps around at the edges."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(rng.standard_normal(shape), width, mode="wrap"))


def _normal(field: Array) -> Array:
    """The field with mean 0 and deviation 1."""
    scaled: Array = (field - field.mean()) / field.std()
    return scaled
