"""Numbers as few bytes, exactly: the primitives of a lean state.

Whoever unpacks has a *reference*, the numbers of a learner that has seen nothing. A number costs two bits if it equals
its reference, two or four bytes more if it is a small whole number, and eight bytes more otherwise.

All functions are plain enough to be compiled. `put_...` writes into `out` and returns where the next part begins;
`take_...` reads from `data` and returns the same, or BAD where the data end too early or hold something impossible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osamd.numerics import Array

BAD = -1
"""Returned instead of a place by whatever finds that the bytes cannot be right."""


def put_numbers(out: Any, at: int, numbers: Array, reference: Array) -> int:
    """Pack a vector; see the module."""
    bits, expected = numbers.view(np.int64), reference.view(np.int64)
    tags = at
    at += (numbers.shape[0] + 3) // 4
    for place in range(tags, at):
        out[place] = 0
    for i in range(numbers.shape[0]):
        if bits[i] == expected[i]:
            continue
        number, content, size, tag = numbers[i], bits[i], 8, 3
        if content >= 0 and number < 4294967296.0 and number == np.floor(number):
            content = np.int64(number)
            size, tag = (2, 1) if content < 65536 else (4, 2)
        out[tags + i // 4] |= np.uint8(tag << (2 * (i % 4)))
        at = put_whole(out, at, content, size)
    return at


def take_numbers(data: Any, at: int, numbers: Array, reference: Array) -> int:
    """Unpack a vector that `put_numbers` packed."""
    bits = numbers.view(np.int64)
    tags = at
    at += (numbers.shape[0] + 3) // 4
    if tags < 0 or at > data.shape[0]:
        return BAD
    for i in range(numbers.shape[0]):
        tag: Any = (np.int64(data[tags + i // 4]) >> (2 * (i % 4))) & 3
        if tag == 0:
            numbers[i] = reference[i]
            continue
        size = 8 if tag == 3 else 2 * tag
        if at + size > data.shape[0]:
            return BAD
        content = take_whole(data, at, size)
        if tag == 3:
            bits[i] = content
        else:
            numbers[i] = float(content)
        at += size
    return at


def put_whole(out: Any, at: int, content: Any, size: int) -> int:
    """Write a whole number of at least 0 in `size` bytes."""
    for k in range(size):
        out[at + k] = np.uint8((content >> (8 * k)) & 255)
    return at + size


def take_whole(data: Any, at: int, size: int) -> Any:
    """Read a whole number that `put_whole` wrote; the caller knows that the data are long enough."""
    content: Any = np.int64(0)
    for k in range(size):
        content |= np.int64(data[at + k]) << (8 * k)
    return content
