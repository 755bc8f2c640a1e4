"""The plain loop over a stream: the reference for every faster version."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array, lane_sum
from osamd.paper.algorithm import State
from osamd.paper.ledger import Ledger
from osamd.paper.losses import on_scores
from osamd.paper.methods import Learner
from osamd.paper.scores import UNLABELLED
from osamd.streams.base import Labels, Stream, query_generator


class PlainRun(NamedTuple):
    """The result of playing a stream: the ledger, and the state after the last round."""

    ledger: Ledger
    state: State


def check_block(learner: Learner, x: Array, y: Labels, first: int) -> None:
    """Refuse samples that the model cannot take, naming the round."""
    if x.ndim != 2 or x.shape[1] != learner.model.features:
        raise InputError(
            f"`play(stream=...)`: round {first} has features of shape {x.shape[1:]},"
            f" the model takes {learner.model.features}; build it with linear(features=...) of the stream."
        )
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise InputError(
            f"`play(stream=...)`: round {first + bad} holds {x[bad].tolist()}; features must be finite,"
            " so fill or drop missing values first."
        )
    known = (y >= 0) & (y < learner.model.classes)
    if not known.all():
        bad = int(np.argmin(known))
        raise InputError(
            f"`play(stream=...)`: round {first + bad} has label {int(y[bad])}, which is not a class index"
            f" 0..{learner.model.classes - 1}; build the model with classes={len(set(y.tolist()))} or more."
        )


def diverged(t: int) -> InputError:
    """The error for a round whose scores or loss are no longer finite."""
    return InputError(
        f"`play(...)`: in round {t} the scores are no longer finite: the steps are too large for these features."
        " Scale the features, or lower eta, the L2 term or the inner rate."
    )


def check_finite(ledger: Ledger, first: int, last: int) -> None:
    """Refuse to go on once a score or a loss is not finite, naming the first such round."""
    finite = np.isfinite(ledger.loss[first:last]) & np.isfinite(ledger.margin[first:last])
    if not finite.all():
        raise diverged(first + int(np.argmin(finite)))


def play(
    learner: Learner,
    stream: Stream,
    seed: int,
    *,
    keep_params: bool = False,
    progress: Callable[[int], None] | None = None,
) -> PlainRun:
    """Play a learner over a stream, testing before training: decide, ask and learn in each round.

    The same seed gives the same samples and the same uniforms, and so exactly the same queries. `keep_params` keeps the
    deciding parameters of every round, which regret needs. `progress` is called with the number of rounds done after
    each block.

    >>> from osamd.paper.methods import Settings, learner
    >>> from osamd.paper.models import linear
    >>> from osamd.streams import rotating_gaussian
    >>> osamd = learner("osamd", linear(features=2), Settings(eta=0.01, sigma=0.35), start=[0.4, 0.0, -4.0])
    >>> ledger, state = play(osamd, rotating_gaussian(200), seed=1)
    >>> len(ledger), 0.0 < ledger.label_rate < 0.5
    (200, True)
    """
    observe, learn = learner.round
    model, rates, state = learner.model, learner.rates, learner.state
    value = on_scores(learner.loss, model.reading).value
    ledger = Ledger.empty(stream.rounds, model.shape if keep_params else None)
    generator = query_generator(seed)
    t = 0
    for x, y in stream.blocks(seed):
        check_block(learner, x, y, t)
        first = t
        # A step too large for its stream overflows; the end of the block catches that and names the round.
        with np.errstate(all="ignore"):
            for row, label, u in zip(model.augment(x), y.tolist(), generator.random(len(y)).tolist(), strict=True):
                try:
                    decision = observe(state, row, u, rates)
                    state = learn(state, row, decision, label if decision.query else UNLABELLED, rates)
                    w = decision.adapted
                    suffered = value(model.scores(w, row), label) + float(lane_sum((rates.penalty * w * w).ravel()))
                except (OverflowError, ZeroDivisionError) as error:
                    raise diverged(t) from error
                ledger.label[t] = label
                ledger.decision[t] = decision.label
                ledger.pseudolabel[t] = decision.pseudolabel
                ledger.margin[t] = decision.margin
                ledger.probability[t] = decision.probability
                ledger.asked[t] = decision.query
                ledger.loss[t] = suffered
                if ledger.params is not None:
                    ledger.params[t] = w
                t += 1
        check_finite(ledger, first, t)
        if progress is not None:
            progress(t)
    if t != stream.rounds:
        raise InputError(f"`play(stream={stream.name!r})`: the stream announced {stream.rounds} rounds and gave {t}.")
    return PlainRun(ledger, state)
