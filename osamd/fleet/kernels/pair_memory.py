"""The memory that one pair of dense networks works in: on a GPU that next to its threads.

Two vectors hold the numbers of the decisions, and the networks with their working space. The samples that are
remembered lie elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osamd.fleet.kernels.pair_layers import COLUMNS, LEARNING, NETWORKS
from osamd.fleet.kernels.pair_roles import lane, meet, rank, works
from osamd.fleet.pair import COUNTS, ORDERS, WORK
from osamd.preset.views import cut, cut_single, cut_whole


class OwnNumbers(NamedTuple):
    """What the decisions of a pair need, side by side in one vector."""

    arbiter: Any
    counts: Any
    book: Any
    work: Any
    shares: Any
    orders: Any


class OwnNetworks(NamedTuple):
    """The networks of a pair and the room that they work in, side by side in one vector."""

    rates: Any
    rows: Any
    squares: Any
    room: Any


def numbers_in(vector: Any, arbiter: int, book: int, classes: int) -> Any:
    """The parts of the vector, for an arbiter and a book of these lengths; and where it ends."""
    opinions, at = cut(vector, 0, arbiter)
    counts, at = cut(vector, at, COUNTS)
    spent, at = cut(vector, at, book)
    work, at = cut(vector, at, WORK * classes)
    shares, at = cut(vector, at, 3 * classes)
    orders, at = cut_whole(vector, at, ORDERS)
    return OwnNumbers(opinions, counts, spent, work, shares, orders), at


def networks_in(vector: Any, size: int, room: int) -> Any:
    """The parts of the vector, for networks with so many parameters; and where it ends."""
    rates, at = cut_single(vector, 0, LEARNING)
    rows, at = cut_single(vector, at, NETWORKS * size)
    squares, at = cut_single(vector, at, LEARNING * size)
    layers, at = cut_single(vector, at, room)
    return OwnNetworks(rates, rows, squares, layers), at


def copy(source: Any, target: Any, lanes: int, ranks: int) -> None:
    """Copy a vector."""
    for k in range(lane() + rank() * lanes if works() else target.shape[0], target.shape[0], lanes * ranks):
        target[k] = source[k]


def carry(
    i: int,
    arbiters: Any,
    counts: Any,
    books: Any,
    networks: Any,
    squares: Any,
    numbers: OwnNumbers,
    own: OwnNetworks,
    back: bool,
    lanes: int,
    ranks: int,
) -> None:
    """Copy what the rounds of pair i change into its own memory, or back."""
    pairs, size = counts.shape[0], networks.shape[1]
    for theirs, ours in ((arbiters[i], numbers.arbiter), (counts[i], numbers.counts), (books[i], numbers.book)):
        copy(ours if back else theirs, theirs if back else ours, lanes, ranks)
    for e in range(NETWORKS):
        theirs, ours = networks[i + e * pairs], own.rows[e * size : (e + 1) * size]
        copy(ours if back else theirs, theirs if back else ours, lanes, ranks)
    for e in range(LEARNING):
        theirs, ours = squares[i + e * pairs], own.squares[e * size : (e + 1) * size]
        copy(ours if back else theirs, theirs if back else ours, lanes, ranks)
    meet()


def room_for(widths: Any) -> int:
    """The numbers that a pair's halves work in: how far student and teacher have grown, the inputs and outputs of
    every layer, and the slopes on all but the inputs."""
    total: int = LEARNING + COLUMNS * widths[0]
    for k in range(1, len(widths)):
        total += 2 * COLUMNS * widths[k]
    return total
