"""The parts that lanes and ranks take in the kernel for pairs: here those of the CPU, where one lane does everything.

The kernel is written for several lanes, in ranks, that work together and wait for each other. On a GPU
(`osamd.fleet.kernels.pairs`) these functions are replaced by others of the same names.
"""

from __future__ import annotations

from typing import Any


def lane() -> int:
    """Which of the lanes of its rank this is."""
    return 0


def rank() -> int:
    """Which of the ranks of lanes this is in; lanes and ranks share the two axes of a matrix."""
    return 0


def works() -> bool:
    """Whether this is one of the lanes and ranks that play the networks."""
    return True


def decides() -> bool:
    """Whether this is the one that decides; it works on while the others go on."""
    return True


def sync() -> None:
    """Wait for the others that play the networks."""


def meet() -> None:
    """Wait for all others."""


def index(number: Any) -> Any:
    """A place in an array: on a GPU a number without a sign, since a sign costs more arithmetic than the sums."""
    return number
