"""`osamd reproduce adaptation`: the preset for networks beside methods of test-time adaptation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osamd.cli.options import names
from osamd.reporting.terminal import files, stages

BUDGETS = "1%,3%,6%"
PARTS = {
    **dict.fromkeys(("rounds", "seeds"), int),
    **dict.fromkeys(("budgets", "peers", "tuned_on_seeds"), list),
    **dict.fromkeys(("stream_facts", "run"), dict),
    "stream": str,
}
"""What is read of the file of an earlier run."""
ROUNDS = 4096
"""Rounds to which a stream is thinned unless --rounds says otherwise."""


def adaptation(
    streams: list[str] | None,
    methods: list[str] | None,
    budgets: str | None,
    seeds: int,
    rounds: int | None,
    tune: bool,
    device: str | None,
    data_dir: Path | None,
    out: Path,
    earlier: Path | None = None,
) -> None:
    """Compare on each stream in turn; each writes a file of its own as soon as it is done.

    With the file of an `earlier` run its stream, rounds, seeds and budgets are played again, by the preset and the
    methods that are named.
    """
    from osamd.errors import InputError, nearest
    from osamd.prequential.runs import share
    from osamd.reproduce import deep
    from osamd.reproduce.adaptation import comparison, report
    from osamd.reproduce.adaptation.benchmarks import BENCHMARKS

    deep.require_torch()
    from osamd.reproduce.adaptation.registry import PEERS

    chosen, peers = names(streams) or list(BENCHMARKS), names(methods) or None
    for option, given, known in (("streams", chosen, BENCHMARKS), ("methods", peers or [], PEERS)):
        for name in given:
            if name not in known:
                raise InputError(f"`--{option} {name}`: no such name. {nearest(name, list(known))}")
    shares = sorted(share(one) for one in names([budgets or BUDGETS]))
    kept = None if earlier is None else _earlier(earlier, {"streams": streams, "budget": budgets, "rounds": rounds})
    if kept is not None:
        chosen, shares, seeds, rounds = [kept["stream"]], kept["budgets"], kept["seeds"], kept["rounds"]
        peers = peers or []
        if peers and tune != bool(kept["tuned_on_seeds"]):
            change = "add" if kept["tuned_on_seeds"] else "leave out"
            raise InputError(
                f"`--peers {earlier}`: its peers must be comparable with those of --methods; {change} --tune."
            )
    for name in chosen:
        with files(out, f"{name}.json") as deliver, stages() as told:
            deliver(
                report.report(
                    comparison.compare(
                        name,
                        shares,
                        seeds,
                        rounds or ROUNDS,
                        methods=peers,
                        tune=tune,
                        device=device,
                        data_dir=data_dir,
                        stages=told,
                    ),
                    kept,
                )
            )


def _earlier(path: Path, others: Mapping[str, object]) -> dict[str, Any]:
    """The content of an earlier run's file."""
    from osamd.errors import InputError

    for option, given in others.items():
        if given is not None:
            raise InputError(
                f"`--peers {path}` plays the file's stream, budgets and rounds again; leave out --{option}."
            )
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        for part, kind in PARTS.items():
            if not isinstance(content[part], kind):
                raise ValueError(f"{part} is {content[part]!r:.40}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"`--peers {path}`: this is no file of `osamd reproduce adaptation` ({error}); give STREAM.json of an"
            " earlier run."
        ) from error
    return content
