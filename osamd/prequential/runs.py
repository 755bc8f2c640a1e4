"""A prequential run on a user's table: the method, what delay costs it, and the other methods at equal labels."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Sequence
from typing import Any

from osamd.errors import InputError, lookup, require_whole
from osamd.evaluation.answers import Delay
from osamd.learner.linear import REACH
from osamd.paper.ledger import balanced
from osamd.paper.methods import KNOWN, METHODS, PRESET, method_name
from osamd.prequential.delays import delay_named
from osamd.prequential.outcomes import Baseline, Outcome, Run
from osamd.prequential.playing import PlayedRun
from osamd.prequential.sources import Alone, Kept, Player, Start
from osamd.preset import arbiter
from osamd.tables import rows

SEEDS = 5
"""Query seeds that are played where methods or delays are compared: the draws of the queries move a difference."""

LABELS_SEEN, SHORTEST, LONGEST = 200, 1000, 20_000
"""The learner estimates its accuracy over a window that a budget fills with so many labels, within these rounds."""


def run(
    table: Any,
    label: str | None,
    *,
    budget: float | str | None = None,
    max_labels: int | None = None,
    warmup: int = 1000,
    method: str | None = None,
    eta: float | None = None,
    sigma: float | None = None,
    delay: str | Delay | None = None,
    compare: bool = False,
    other_budgets: bool = False,
    seed: int = 0,
    seeds: int | None = None,
    classes: Sequence[object] | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    format: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    start: Start | None = None,
    done: Callable[[int], None] | None = None,
) -> Outcome:
    """Play a labelled table as a stream: the first `warmup` rows train, then each row is asked about, test then train.

    The label of a row is told only where the learner asked for it, after the `delay` ("fixed:100", "random:100",
    "bursty:500", "lost:0.2", or several with commas); with a delay the same is played without, too. Without a `method`,
    eta and sigma it is the preset; with eta or sigma the paper's OSAMD. `compare` plays the paper's methods beside it,
    on the same rows and draws; those that ask uniformly do so at the rate it took. `other_budgets` plays the preset at
    half and at twice its budget and with every label, too. The preset takes in classes that
    first appear after the warm-up, unless `classes` are given. The draws decide what is asked, so
    that `seeds` of them are played (seed, seed + 1, ...; 5 where methods or delays are compared, else 1), and means
    over them are reported. `budget` is a share of the rounds (0.05 or "5%"), `max_labels` a count; the preset asks for
    at most 5 % where no budget is given. How tables are read is told by `osamd.tables.rows`; for the paper's methods
    features are standardised by their running mean and deviation. `start` and `done` are told of the progress.

    Memory is that of one block of rows and about 50 bytes a round, and one for every method and seed; where the rows
    are played more than once they are kept in a temporary file.

    >>> import tempfile, numpy as np
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 600)
    >>> x = generator.normal(size=600) + 4.0 * y
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x,y\\n" + "".join(f"{a},{b}\\n" for a, b in zip(x, y)))
    ...     file.flush()
    ...     outcome = run(file.name, "y", warmup=100, budget="10%")
    >>> outcome.ledger.accuracy > 0.9, outcome.ledger.label_rate <= 0.1, len(outcome.ledger)
    (True, True, 500)
    """
    rate = None if budget is None else share(budget)
    meant_by = "" if method is not None else "eta" if eta is not None else "sigma" if sigma is not None else ""
    method = method_name(method, {"eta": eta, "sigma": sigma})
    kind = lookup("run", "method", method, KNOWN)
    if kind.query == "uniform" and rate is None:
        raise InputError(f"`run(method={method!r})`: it asks uniformly, at a rate; give budget='5%' or another.")
    if kind.query == "always" and not (rate is None and max_labels is None):
        raise InputError(f"`run(method={method!r})`: it asks for every label; leave budget=... and max_labels=... out.")
    for option, given in (("eta", eta), ("sigma", sigma)):
        if isinstance(given, numbers.Real) and not 0.0 < given < math.inf:
            raise InputError(f"`run({option}={given:g})`: {option} must be positive and finite.")
        if kind is PRESET and given is not None:
            raise InputError(
                f"`run(method={method!r}, {option}={given:g})`: it sets its steps by itself; leave {option}=... out."
            )
    if max_labels is not None:
        max_labels = require_whole("run", "max_labels", max_labels)
    if kind is PRESET and rate is None:
        rate = arbiter.RATE
    sigma = 1.0 if sigma is None else sigma
    late = None if delay is None else delay_named(delay)
    seed = require_whole("run", "seed", seed, 0)
    limits: dict[str, Any] = {"budget": rate, "max_labels": max_labels}
    data = rows(
        table,
        label,
        warmup=warmup,
        classes=classes,
        drop=drop,
        categorical=categorical,
        keep=keep,
        format=format,
        decimal=decimal,
        encoding=encoding,
        grow=kind is PRESET,
    )
    again = compare or late is not None
    around = {} if kind is not PRESET or not other_budgets else _around(limits["budget"])
    count = require_whole("run", "seeds", seeds if seeds is not None else SEEDS if again else 1)
    common = {"eta": eta, "sigma": sigma, "window": _window(rate)}
    found: dict[str, list[Run]] = {}
    prompt: list[Run] = []
    with Kept(data) as kept:
        alone = Alone(data, common)
        player = Player(data, kept if again or around or count > 1 else data.blocks(), common, start, done)
        main = player.play(method, late, seed, watch=alone.watch, **limits)
        for one in range(seed, seed + count):
            what = "" if count == 1 else f", seed {one}"
            played = main if one == seed else player.play(method, late, one, what, **limits)
            runs = {method: _run_of(method, played)}
            if late is not None:
                prompt.append(_run_of(method, player.play(method, None, one, what + " without delay", **limits)))
            if compare:
                runs |= _compared(player, runs, found, late, one, what, limits)
            for name in sorted(runs, key=lambda name: (name != PRESET.name, list(KNOWN).index(name))):
                found.setdefault(name, []).append(runs[name])
        by_budget = {
            other: _run_of(method, player.play(method, late, seed, f" with {what}", budget=other))
            for other, what in around.items()
        }
        if around:
            by_budget = dict(sorted({rate or 1.0: found[method][0], **by_budget}.items()))
    return Outcome(
        table=data.name,
        label=data.label,
        classes=data.classes,
        columns=data.columns,
        warmup=len(data.source[1]),
        unlabelled=data.unlabelled,
        settings={
            "method": method,
            "budget": rate,
            "max_labels": max_labels,
            "eta": None if kind is PRESET else float(eta) if eta is not None else REACH / (len(data.features) + 1),
            "sigma": None if kind is PRESET else float(sigma),
            "warmup": warmup,
            "window": common["window"],
            "seed": seed,
            "seeds": count,
            "delay": None if late is None else late._asdict(),
        },
        delay=late,
        learner=main.learner,
        ledger=main.ledger,
        came=main.came,
        checks=main.checks,
        runs={name: runs[0] for name, runs in found.items()},
        without_delay=prompt[0] if prompt else None,
        repeats=found,
        repeats_without_delay=prompt,
        baselines={
            name: Baseline(title, right, balanced(right, main.ledger.label))
            for name, (title, right) in alone.found().items()
        },
        data=data,
        margins_left_alone=alone.margins(),
        by_budget=by_budget,
        meant_by=meant_by,
    )


def _around(rate: float) -> dict[float, str]:
    """Half and twice the rate, and every label, each with its name.

    >>> _around(0.05)
    {0.025: '2.5 % of the labels', 0.1: '10 % of the labels', 1.0: 'every label'}
    >>> _around(0.6)
    {0.3: '30 % of the labels', 1.0: 'every label'}
    """
    named = {other: f"{100 * other:g} % of the labels" for other in (rate / 2, 2 * rate) if other < 1.0}
    return named if rate == 1.0 else named | {1.0: "every label"}


def _window(rate: float | None) -> int:
    """Rounds over which the learner estimates its accuracy, in whole thousands.

    >>> _window(None), _window(0.05), _window(0.001)
    (1000, 4000, 20000)
    """
    wanted = SHORTEST if rate is None else 1000 * math.ceil(LABELS_SEEN / rate / 1000)
    return min(max(wanted, SHORTEST), LONGEST)


def _compared(
    player: Player,
    found: dict[str, Run],
    before: dict[str, list[Run]],
    late: Delay | None,
    seed: int,
    what: str,
    limits: dict[str, Any],
) -> dict[str, Run]:
    """The paper's methods that are not there yet, at equal labels: those that ask uniformly do so at the rate that the
    preset took where it was played, else OSAMD, which comes first. So they take as many on average.

    Where that asked for nothing they ask for nothing either. `before` are the runs of the seeds before.
    """
    runs = dict(found)
    order = sorted(METHODS.values(), key=lambda one: (one.name != "osamd", list(METHODS).index(one.name)))
    for one in order:
        if one.name in runs:
            continue
        if one.query == "always" and late is None and one.name in before:
            runs[one.name] = before[one.name][0]  # without queries to draw and delays, seeds are alike
            continue
        own = limits
        if one.query == "always":
            own = {}
        elif one.query == "uniform":
            rate = runs[PRESET.name if PRESET.name in runs else "osamd"].labels
            own = {"label_rate": rate, "max_labels": limits["max_labels"]}
        runs[one.name] = _run_of(one.name, player.play(one.name, late, seed, what, **own))
    return runs


def _run_of(method: str, played: PlayedRun) -> Run:
    ledger, learner = played.ledger, played.learner
    return Run(
        method=method,
        accuracy=ledger.accuracy,
        balanced_accuracy=ledger.balanced_accuracy,
        labels=ledger.label_rate,
        pseudolabel_errors=ledger.pseudolabel_errors / len(ledger),
        asked=learner.asked,
        told=learner.told,
        expired=learner.expired,
        pending=len(learner.pending),
        right=ledger.decision == ledger.label,
    )


def share(budget: float | str) -> float:
    """A share of the rounds: a fraction, or text such as 5%.

    >>> share("5%"), share(0.05), share("0.05")
    (0.05, 0.05, 0.05)
    """
    text = str(budget).strip()
    try:
        found = float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
    except ValueError:
        found = math.nan
    if not 0.0 < found <= 1.0:
        more = f" Did you mean {text}%?" if found <= 100.0 and found > 1.0 and not text.endswith("%") else ""
        raise InputError(
            f"`run(budget={budget!r})`: the share of rounds whose label may be asked for, above 0% and at most 100%, as"
            f" in budget='5%' or budget=0.05.{more}"
        )
    return found
