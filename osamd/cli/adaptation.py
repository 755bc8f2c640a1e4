"""`osamd reproduce adaptation`: the preset for networks beside methods of test-time adaptation."""

from __future__ import annotations

from pathlib import Path

from osamd.cli.options import names
from osamd.reporting.terminal import files, stages

BUDGETS = "1%,3%,6%"
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
) -> None:
    """Compare on each stream in turn; each writes a file of its own as soon as it is done."""
    from osamd.errors import InputError, nearest
    from osamd.prequential.runs import share
    from osamd.reproduce import deep
    from osamd.reproduce.adaptation import comparison, report
    from osamd.reproduce.adaptation.benchmarks import BENCHMARKS

    deep.require_torch()
    from osamd.reproduce.adaptation.registry import PEERS

    chosen, peers = names(streams) or list(BENCHMARKS), names(methods) or list(PEERS)
    for option, given, known in (("streams", chosen, BENCHMARKS), ("methods", peers, PEERS)):
        for name in given:
            if name not in known:
                raise InputError(f"`--{option} {name}`: no such name. {nearest(name, list(known))}")
    shares = sorted(share(one) for one in names([budgets or BUDGETS]))
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
                    )
                )
            )
