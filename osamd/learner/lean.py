"""A lean state: a learner as few bytes, for a service or an engine that keeps one learner for each of many keys.

The bytes hold what a learner has learned, and not its settings: whoever reads them has a learner with the same settings
(`OSAMD.from_state` is a method of one), and a digest of the settings tells whether they are the same. Equal learners
give equal bytes, on every machine. All that decides comes back to the last bit: the learner continues with the same
decisions, queries and probabilities. Reports on the window are as precise as `osamd.accounting.lean_books.PRECISION`.

In the bytes, one after the other: `HEADER`; classes and source rows as JSON; book and meter; the model; pending
queries; a digest of all of these. The file is long because what is written and what is read stand side by side.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from osamd.accounting import meter as meters
from osamd.accounting.few_bytes import BAD
from osamd.accounting.sound_books import check_meter
from osamd.checks import one_sentence, require_that, unsound
from osamd.errors import InputError, require_whole
from osamd.learner import resuming
from osamd.learner.cores.compiled_packing import packing
from osamd.learner.decision import Decision, known_classes
from osamd.learner.saving import Saved
from osamd.numerics import Array
from osamd.paper.methods import PRESET
from osamd.streams.base import query_generator

if TYPE_CHECKING:
    from osamd.learner.linear import OSAMD

VERSION = 3
"""The version of the format. A reader refuses versions it does not know."""
HEADER = struct.Struct("<B8s16s16sIIH")
"""Version, digest of the settings, state and increment of the generator, expired and pending queries, size of JSON."""
DIGEST = 8
"""The bytes of a digest."""
MOST_CLASSES = 65536
_WHOLE = 2**128
QUERY = struct.Struct("<8d")
"""The numbers of a pending query: id, label, pseudolabel, margin, probability, expected bin, draw, and how many scores
it has. Its scores and its sample follow."""


class _NoSeed(ISeedSequence):
    """Makes a generator whose state is set right away: gathering entropy for it would take as long as the rest."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return np.zeros(n_words, dtype)


_NO_SEED: Any = _NoSeed()


class SharedSettings(NamedTuple):
    """What a learner shares with all others of its settings."""

    digest: bytes
    opened: Array
    """The book before the first round."""


def to_state(learner: OSAMD) -> bytes:
    """The learner as few bytes."""
    core = learner._core
    if core is None:
        raise InputError("`to_state()`: the learner has met no sample yet, so it has no model; give it features=... .")
    settings = _settings(learner)
    held = json.dumps([learner._classes, learner._source_rows], separators=(",", ":")).encode()
    generator = _before_the_draws_in_hand(learner)
    head = HEADER.pack(
        VERSION,
        settings.digest,
        generator["state"].to_bytes(16, "little"),
        generator["inc"].to_bytes(16, "little"),
        learner._expired,
        len(learner._pending),
        len(held),
    )
    at = len(head) + len(held)
    queries = [_bytes_of(query) for query in learner._pending.values()]
    size = at + 9 * (len(learner._book) + len(learner._meter) + core.size())
    out = np.empty(size + 64, dtype=np.uint8)
    out[:at] = np.frombuffer(head + held, dtype=np.uint8)
    empty = _empty_meter(int(learner._meter[meters.CLASSES]), learner._window)
    narrow = learner._method is PRESET
    at = packing().put_accounts(out, at, learner._book, settings.opened, learner._meter, empty, narrow)
    at = core.packed(out, at)
    body = b"".join([out[:at].tobytes(), *queries])
    return body + _digest(body)


def from_state(like: OSAMD, data: bytes, *, trusted: bool, seed: int | None = None) -> Any:
    """The learner whose `to_state` gave the data; `like` has the same settings. A `seed` starts its draws anew."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InputError(f"`from_state(data={type(data).__name__})`: give the bytes that `to_state` gave.")
    if like._core is None:
        raise InputError("`from_state(...)`: the learner has met no sample yet; make it with features=... .")
    with one_sentence():
        learner = _read(like, bytes(data), trusted)
    if seed is not None:
        learner._generator = query_generator(require_whole("from_state", "seed", seed, 0))
    return learner


def _read(like: OSAMD, data: bytes, trusted: bool) -> OSAMD:
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if len(body) < HEADER.size or digest != _digest(body):
        raise InputError(
            "`from_state(...)`: the bytes are damaged or not a state: their digest does not match; use an earlier copy."
        )
    version, digest, state, increment, expired, pending, length = HEADER.unpack_from(body)
    if version != VERSION:
        raise InputError(
            f"`from_state(...)`: the state has version {version}, and this osamd reads version {VERSION}; read it with"
            " the osamd that wrote it, save() it to a file there, and load the file here."
        )
    settings = _settings(like)
    if digest != settings.digest:
        raise InputError(
            "`from_state(...)`: the state belongs to a learner with other settings; read it with a learner that has"
            " the settings of the one that wrote it, and change them by remade(...)."
        )
    at = HEADER.size + length
    classes, source_rows = _names(body[HEADER.size : at], like)
    empty = _empty_meter(len(classes), like._window)
    core = like._core.twin(len(classes), np.zeros(len(settings.opened)), empty.copy())
    numbers = np.frombuffer(body, dtype=np.uint8)
    narrow = like._method is PRESET
    at = packing().take_accounts(numbers, at, core.book, settings.opened, core.meter, empty, narrow)
    at = core.unpack(numbers, at) if at >= 0 else BAD
    if at < 0:
        raise unsound("its numbers end too early, or are out of their ranges")
    learner = _with(like, core, classes, source_rows)
    learner._generator = _generator(int.from_bytes(state, "little"), int.from_bytes(increment, "little"))
    learner._expired = expired
    _await(learner, body, at, pending)
    if not trusted:
        _check(learner, settings, data)
    return learner


def round_window(learner: OSAMD) -> None:
    """Round the window of the meter as a state would, so that reports are those of a learner read from its state."""
    settings, narrow = _settings(learner), learner._method is PRESET
    empty = _empty_meter(int(learner._meter[meters.CLASSES]), learner._window)
    out = np.empty(9 * (len(learner._book) + len(learner._meter)), dtype=np.uint8)
    packing().put_accounts(out, 0, learner._book, settings.opened, learner._meter, empty, narrow)
    packing().take_accounts(out, 0, learner._book, settings.opened, learner._meter, empty, narrow)


def let_go(learner: OSAMD) -> None:
    """Free a learner that nobody will use any more: its open decisions and it hold each other."""
    learner._pending.clear()
    learner._held = None


def _with(like: OSAMD, core: Any, classes: list[Any], source_rows: list[int] | None) -> OSAMD:
    """A learner with the settings of `like` around a core."""
    learner: OSAMD = object.__new__(type(like))
    learner.__dict__.update(like.__dict__)
    learner._classes, learner._index = classes, {name: i for i, name in enumerate(classes)}
    learner._source_rows = source_rows
    learner._uniforms, learner._pending, learner._held = [], {}, None
    learner._bind(core, like._sample)
    learner._rounds, learner._told = int(core.meter[meters.ROUNDS]), int(core.meter[meters.TOLD])
    return learner


def _check(learner: OSAMD, settings: SharedSettings, data: bytes) -> None:
    """All checks of a learner's file; and that the bytes are those that this learner gives."""
    check_meter(learner._meter)
    learner._core.check()
    saved = learner._book.copy()
    learner._book[:] = settings.opened
    learner._take_up_book(saved)
    known_classes(learner._classes)
    counts = {"rounds": learner._rounds, "told": learner._told, "expired": learner._expired}
    resuming.check_counts(counts | {"pending": list(learner._pending)}, learner._book, learner._meter)
    resuming.checked_source_rows({"source_rows": learner._source_rows}, len(learner._classes))
    require_that(to_state(learner) == data, "another learner gives these bytes")


def _settings(learner: OSAMD) -> SharedSettings:
    """The settings of a learner, kept with it once they are computed."""
    found: SharedSettings | None = learner.__dict__.get("_lean_settings")
    if found is None:
        described = learner._recipe.described() | learner._described()
        described |= {"method": learner.method, "budget": learner._limits._asdict(), "window": learner._window}
        described |= {"expire_after": learner._expire_after}
        text = json.dumps(described, sort_keys=True, allow_nan=False)
        found = SharedSettings(_digest(text.encode()), learner._recipe.book(learner._limits))
        learner.__dict__["_lean_settings"] = found
    return found


@lru_cache(maxsize=64)
def _empty_meter(classes: int, window: int) -> Array:
    """A meter without any round, which nobody changes."""
    return meters.open_meter(max(2, classes), window)


def _names(held: bytes, like: OSAMD) -> tuple[list[Any], list[int] | None]:
    """Classes and source rows; classes that `like` does not have were added later."""
    content = json.loads(held)
    if type(content) is not list or len(content) != 2 or type(content[0]) is not list or len(content[0]) > MOST_CLASSES:
        raise unsound("it names no classes")
    classes, source_rows = content
    if classes != like._classes:
        known_classes(classes)
        require_that(hasattr(like._core, "add_class") or len(classes) == len(like._classes), "it has other classes")
    return classes, source_rows


def _before_the_draws_in_hand(learner: OSAMD) -> dict[str, int]:
    """The state of the generator before it drew the uniforms that are not used yet."""
    generator, in_hand = learner._generator, learner._uniforms
    bits: Any = generator.bit_generator
    if in_hand:
        bits.advance(_WHOLE - len(in_hand))
    state: dict[str, Any] = bits.state
    if in_hand and generator.random(len(in_hand))[::-1].tolist() != in_hand:
        raise InputError("`to_state()`: the draws in hand do not come from the learner's generator; use `to_bytes`.")
    held: dict[str, int] = state["state"]
    return held


def _generator(state: int, increment: int) -> np.random.Generator:
    if increment % 2 == 0:
        raise unsound("the increment of generator is even")
    bits = np.random.PCG64(_NO_SEED)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return np.random.Generator(bits)


def _bytes_of(query: Decision) -> bytes:
    """A pending query, its scores and its sample."""
    seen, score = query._seen, np.atleast_1d(query._seen.score)
    numbers = (query.id, seen.label, seen.pseudolabel, seen.margin, seen.probability, seen.expected, query.draw)
    return b"".join((QUERY.pack(*numbers, len(score)), score.tobytes(), query._sample.tobytes()))


def _await(learner: OSAMD, body: bytes, at: int, pending: int) -> None:
    """Read the pending queries, and check them as those of a file are checked."""
    rows: list[list[Any]] = []
    scores, samples, draws = [], [], []
    width = learner._core.features
    for _ in range(pending):
        require_that(at + QUERY.size <= len(body), "its pending queries end too early")
        *fixed, draw, length = QUERY.unpack_from(body, at)
        require_that(all(map(math.isfinite, fixed)), "a pending query holds numbers that are not finite")
        require_that(1 <= length <= len(learner._classes) and length == int(length), "a pending query has no score")
        number, label, pseudolabel, margin, probability, expected = fixed
        at, size = at + QUERY.size, int(length)
        require_that(at + 8 * (size + width) <= len(body), "its pending queries end too early")
        rest = np.frombuffer(body, dtype="<f8", count=size + width, offset=at)
        at += 8 * len(rest)
        rows.append([int(number), int(label), True, int(pseudolabel), margin, probability, 0, expected])
        scores.append(rest[:size])
        samples.append(rest[size:].copy())
        draws.append(draw)
    if at != len(body):
        raise unsound("it goes on after its end")
    if not rows:
        return
    stack = np.full((pending, max(map(len, scores))), np.nan)
    for place, score in zip(stack, scores, strict=True):
        place[: len(score)] = score
    arrays = {"pending.samples": np.array(samples), "pending.scores": stack, "pending.draws": np.array(draws)}
    content = {"pending": rows, "rounds": learner._rounds}
    awaited = resuming.Awaited(Saved(arrays, content), learner._core.no_samples(), len(learner._classes))
    for i in range(pending):
        number = awaited.number(i)
        learner._pending[number] = Decision(number, awaited.seen(i), learner, awaited.draw(i), samples[i])
    learner._await_labels()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST]


def most_bytes(
    features: int, classes: int, labels: int, *, rounds: int, window: int = 1000, share: float = 0.05
) -> int:
    """The most bytes of the state of a default learner without a source, while no query is pending.

    With d features, K classes, n remembered labels (at most 512), r = min(rounds, window), and a `share` of the rounds
    asked about, it is

        2000 + 56 d + K (56 d + 48) + n (8.25 d + 12) + r (30 + log2 K + share (8 + log2 K)) / 8

    and for more than two classes n (8.25 d + 8.5 K + 2) instead of n (8.25 d + 12), as well as K (8 d + 136) more. The
    largest parts are the memory (8 bytes per feature and label) and the window (some 3 bytes per round).

    >>> most_bytes(3, 2, 150, rounds=3000)
    12044
    """
    d, k, n = features, classes, labels
    wide = math.ceil(math.log2(k))
    of_labels = n * (8.25 * d + 12) if k == 2 else n * (8.25 * d + 8.5 * k + 2) + k * (8 * d + 136)
    of_rounds = min(rounds, window) * (30 + wide + share * (8 + wide)) / 8
    return math.ceil(2000 + 56 * d + k * (56 * d + 48) + of_labels + of_rounds)
