"""Rotating MNIST: handwritten digits that rotate by 90 degrees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import lookup, reject, require_whole
from osamd.numerics import Array
from osamd.streams.base import Drift, Labels
from osamd.streams.downloads import RawFile, data_folder, gunzip
from osamd.streams.real.recorded import RealStream

_ORDER = 4  # marks a generator apart from those of source, stream, queries and changes

ROUNDS = 25_000
SIDE = 28
_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist/"


class Images(NamedTuple):
    """The images of a stream, and how many of them are its source."""

    images: RawFile
    labels: RawFile
    source_size: int
    repeats: bool


def _raw(name: str, sha256: str) -> RawFile:
    return RawFile(f"mnist/{name}", _HOME + name, sha256)


ROWS = {
    "reported": Images(
        _raw("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        _raw("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        10_000,
        False,
    ),
    "held-out": Images(
        _raw("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        _raw("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        3_000,
        True,
    ),
}


def rotating_mnist(
    data_dir: str | Path | None = None, *, rows: str = "reported", rounds: int = ROUNDS
) -> RotatingMnist:
    """The paper's Rotating MNIST: 10,000 upright images as source, then one image per round, rotated from 0 to 90
    degrees.

    The seed selects and shuffles 35,000 of the 60,000 training images. `rows="held-out"` is for choosing settings:
    3,000 of the 10,000 test images are the source, and the rounds draw from the other 7,000 with replacement.

    >>> stream = rotating_mnist("data")  # doctest: +SKIP
    >>> stream.rounds, stream.shape  # doctest: +SKIP
    (25000, (1, 28, 28))
    """
    chosen = lookup("rotating_mnist", "rows", rows, ROWS)
    rounds = require_whole("rotating_mnist", "rounds", rounds)
    folder = data_folder("rotating_mnist", data_dir)
    # The checksum has been compared, so these are gzip files with headers of 16 and 8 bytes.
    pixels, digits = (gunzip(folder.read(raw)) or b"" for raw in (chosen.images, chosen.labels))
    images = np.frombuffer(pixels, dtype=np.uint8, offset=16).reshape(-1, SIDE, SIDE)
    y = np.frombuffer(digits, dtype=np.uint8, offset=8).astype(np.int64)
    if not chosen.repeats and rounds > len(y) - chosen.source_size:
        raise reject("rotating_mnist", "rounds", rounds, f"at most {len(y) - chosen.source_size} images are left.")
    facts = {
        "data_set": "MNIST",
        "data_set_rows": len(y),
        "rows": rows,
        "drawn": "with replacement" if chosen.repeats else "without replacement",
        "rotation": "0 to 90 degrees counterclockwise, scipy.ndimage.rotate: cubic spline, zero fill, not clipped",
        "sha256": {raw.path: raw.sha256 for raw in (chosen.images, chosen.labels)},
    }
    return RotatingMnist(images, y, chosen.source_size, rounds, chosen.repeats, facts)


class RotatingMnist(RealStream):
    """Images in an order drawn by the seed; in round t they are rotated counterclockwise by 90 t / (rounds - 1)
    degrees.

    Pixels are divided by 255. The cubic spline of the rotation overshoots [0, 1] by up to about 0.3, and is not
    clipped, as in Kumar et al. (2020). Build one with `rotating_mnist`.
    """

    drawn_by_seed = True

    def __init__(
        self,
        images: NDArray[np.uint8],
        y: Labels,
        source_size: int,
        rounds: int,
        repeats: bool,
        facts: Mapping[str, Any],
    ) -> None:
        super().__init__("rotating-mnist", (1, SIDE, SIDE), tuple(range(10)), source_size, rounds, facts)
        self._images, self._y, self._repeats = images, y, repeats

    @property
    def drift(self) -> Drift:
        return Drift("rotation", np.radians(self._degrees(np.arange(self.rounds))))

    def _degrees(self, rounds: NDArray[np.int64]) -> Array:
        return 90.0 * rounds / max(self.rounds - 1, 1)

    def order(self, seed: int) -> NDArray[np.int64]:
        """The number of the image of each sample of the source and the stream."""
        generator = np.random.default_rng([_ORDER, seed])
        shuffled = generator.permutation(len(self._y))
        if not self._repeats:
            return shuffled[: self.source_size + self.rounds]
        others = shuffled[self.source_size :]
        return np.concatenate([shuffled[: self.source_size], others[generator.integers(len(others), size=self.rounds)]])

    def upright(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        """The images (n x side x side) of samples start, ..., stop - 1 before they are rotated, and their labels."""
        order = self.order(seed)[start:stop]
        return self._images[order] / 255.0, self._y[order]

    def take(self, seed: int, start: int, stop: int) -> tuple[Array, Labels]:
        x, y = self.upright(seed, start, stop)
        degrees = self._degrees(np.maximum(np.arange(start, stop) - self.source_size, 0))
        return rotated(x, degrees).reshape(len(x), -1), y


def rotated(images: Array, degrees: Array) -> Array:
    """Each image (n x side x side) rotated counterclockwise about its centre, with cubic splines and zero fill.

    >>> image = np.array([[0.0, 1.0], [0.0, 0.0]])
    >>> np.allclose(rotated(image[None], np.array([90.0]))[0], [[1.0, 0.0], [0.0, 0.0]])
    True
    """
    from scipy.ndimage import rotate  # a fifth of a second to import, for this stream alone

    turned = images.copy()
    for image, angle in zip(turned, degrees, strict=True):
        if angle != 0.0:
            image[:] = rotate(image, float(angle), reshape=False, order=3, mode="constant", cval=0.0)
    return turned
