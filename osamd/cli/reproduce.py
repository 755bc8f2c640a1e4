"""`osamd reproduce`: the paper's table and figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from osamd.cli.options import Engine, Seeds, Workers, folder
from osamd.reporting.terminal import files, progress, resumable, stages

DEEP = ("rotating-mnist", "portraits", "cover-type")
REPRODUCTIONS = ("rotating-gaussian", *DEEP, "figure3", "all", "adaptation")


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A column of Table 1, Figure 3, all four columns, or a comparison: " + ", ".join(REPRODUCTIONS) + ".",
        ),
    ],
    seeds: Seeds = 10,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Methods to run, the paper's six by default; repeat it or separate them by commas. osamd-preset is"
            " not the paper's, and needs no settings. For adaptation: its peers, all by default.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="The most labels that osamd-preset asks for, 5% by default. For adaptation: shares separated by"
            " commas, 1%,3%,6% by default.",
        ),
    ] = None,
    settings: Annotated[
        str,
        typer.Option(
            metavar="tuned|shared|paper",
            help="On real data: each method's own best, OSAMD's best for all methods, or the appendix literally.",
        ),
    ] = "tuned",
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="On real data: play only the first so many rounds, for a quick look."
            " For adaptation: thin each stream evenly to so many, 4096 by default.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="On real data: cpu, cuda or cuda:N; a GPU where there is one by default.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            parser=folder,
            metavar="FOLDER",
            help="Folder with mnist, covertype and portraits; OSAMD_DATA_DIR or a download into the cache by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=folder,
            metavar="FOLDER",
            help="Folder for results.json and the figures; results/WHAT by default.",
        ),
    ] = None,
    workers: Workers = None,
    engine: Engine = "local",
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--streams",
            help="For adaptation: rotating-mnist, portraits, cover-type, corrupted-mnist; all by default.",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="For adaptation: tune every peer on seeds 100 and 101 first.")
    ] = False,
    peers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For adaptation: the file of an earlier run. Its rounds, seeds and budgets are played again by the"
            " default learner and the peers that --methods names; all others are taken from it.",
        ),
    ] = None,
) -> None:
    """Reproduce the paper's table and figures, ours beside the paper's.

    rotating-gaussian: the Rotating Gaussian column of Table 1 and Figure 2(a), accumulated dynamic regret by round
    (about ten seconds on two cores).

    rotating-mnist, portraits, cover-type: the other columns and Figures 2(b) to 2(d), accumulated loss by round, with
    networks (the extra deep; minutes on a GPU). An interrupted run goes on from its last checkpoint when it is started
    again.

    figure3: accuracy against query rate on Rotating Gaussian, sigma varied (about half a minute).

    all: the four columns, each in a folder of its own.

    adaptation: the default learner beside methods of test-time adaptation at equal labels, on four streams; each
    writes its own file (minutes on a GPU, much longer without one).

    The others write results.json (accuracies and label rates as fractions; the table prints percent) and each figure
    as PNG and SVG.

    Example: osamd reproduce rotating-gaussian --methods osamd,omd-all
    """
    if what == "adaptation":
        from osamd.cli.adaptation import adaptation

        _refuse_unused(what, {"settings": None if settings == "tuned" else settings}, workers, engine)
        place = out or Path("results") / what
        adaptation(streams, methods, budget, seeds, rounds, tune, device, data_dir, place, peers)
        return
    chosen = _known(what, methods)
    _refuse_comparing(what, {"streams": streams, "tune": tune, "peers": peers})
    given = {"settings": None if settings == "tuned" else settings, "rounds": rounds, "device": device}
    _refuse_unused(what, {**given, "data-dir": data_dir}, workers, engine)
    rate = _preset_budget(what, chosen, budget)
    if what in (*DEEP, "all"):
        from osamd.reproduce import deep

        deep.require_torch()
    base = out or Path("results") / ("" if what == "all" else what)
    for name in ("rotating-gaussian", *DEEP) if what == "all" else (what,):
        folder = base / name if what == "all" else base
        if name in DEEP:
            _deep_column(name, chosen, seeds, settings, rounds, device, data_dir, folder, rate)
        else:
            _gaussian(name, chosen, seeds, engine, workers, folder, rate)


def _gaussian(
    what: str, methods: list[str], seeds: int, engine: str, workers: int | None, out: Path, budget: float | None
) -> None:
    from osamd.evaluation.many import Runner
    from osamd.reproduce import gaussian_results, rotating_gaussian

    sweep = what == "figure3"
    sigmas = rotating_gaussian.SIGMAS if sweep else (rotating_gaussian.SIGMA,)
    with files(out, "results.json", "figure3" if sweep else "figure2a") as deliver, resumable(out) as kept:
        runner = Runner(engine, workers, kept)
        total = rotating_gaussian.number_of_runs(methods, seeds, sigmas)
        with progress(f"{what}: {total} runs of {rotating_gaussian.ROUNDS} rounds", total) as step:
            runs = rotating_gaussian.experiment(methods, seeds, sigmas, budget=budget, runner=runner, progress=step)
        deliver(gaussian_results.figure_3(runs) if sweep else gaussian_results.table_1(runs[sigmas[0]], budget))


def _deep_column(
    name: str,
    methods: list[str],
    seeds: int,
    settings: str,
    rounds: int | None,
    device: str | None,
    data_dir: Path | None,
    out: Path,
    budget: float | None,
) -> None:
    from osamd.reproduce import deep, deep_report, table_columns

    with (
        files(out, "results.json", table_columns.COLUMNS[name].figure) as deliver,
        resumable(out, ".checkpoint") as checkpoint,
    ):
        with stages() as told:
            outcome = deep.experiment(
                table_columns.COLUMNS[name],
                methods,
                seeds,
                settings,
                device=device,
                data_dir=data_dir,
                rounds=rounds,
                budget=budget,
                checkpoint=checkpoint,
                stages=told,
            )
        deliver(deep_report.report(outcome))


def _refuse_unused(what: str, real_data: dict[str, Any], workers: int | None, engine: str) -> None:
    """Refuse options that would do nothing; `real_data` are those for streams of real data, None where not given."""
    from osamd.errors import InputError, nearest

    settings = real_data["settings"]
    known = ("tuned", "shared", "paper")
    if settings not in (None, *known):
        raise InputError(f"`--settings {settings}`: no such settings. {nearest(settings, known)}")
    for option, value in real_data.items():
        if value is not None and what not in (*DEEP, "all"):
            raise InputError(f"`reproduce {what} --{option} {value}`: only streams of real data take this option.")
    if workers is not None and what in (*DEEP, "adaptation"):
        raise InputError(
            f"`reproduce {what} --workers {workers}`: networks are not spread over processes; leave it out."
        )
    if engine != "local" and what in (*DEEP, "adaptation"):
        raise InputError(f"`reproduce {what} --engine {engine}`: networks are played in one process; leave it out.")


def _refuse_comparing(what: str, options: Mapping[str, Any]) -> None:
    """Refuse the options of the comparison elsewhere."""
    from osamd.errors import InputError

    for option, given in options.items():
        if given:
            raise InputError(
                f"`reproduce {what} --{option}`: only reproduce adaptation takes this option; leave it out."
            )


def _known(what: str, methods: list[str] | None) -> list[str]:
    """The methods to run, in the paper's order, the preset last."""
    from osamd.errors import InputError, nearest
    from osamd.paper.methods import KNOWN, METHODS

    if what not in REPRODUCTIONS:
        raise InputError(f"`reproduce {what}`: no such reproduction. {nearest(what, REPRODUCTIONS)}")
    if methods is None:
        return list(METHODS)
    names = [name.strip() for part in methods for name in part.split(",") if name.strip()]
    if not names:
        raise InputError(f"`--methods {','.join(methods)!r}`: name at least one method. Known: {', '.join(METHODS)}.")
    for name in names:
        if name not in KNOWN:
            raise InputError(f"`--methods {name}`: no such method. {nearest(name, KNOWN)}")
    return [name for name in KNOWN if name in names]


def _preset_budget(what: str, methods: list[str], budget: str | None) -> float | None:
    """The preset's budget, refused where there is no preset; and the preset refused where it cannot play."""
    from osamd.errors import InputError
    from osamd.paper.methods import PRESET

    if PRESET.name in methods and what == "figure3":
        raise InputError(
            f"`reproduce {what} --methods {PRESET.name}`: figure3 varies sigma, which it does not have; try osamd"
            " labels rotating-gaussian."
        )
    if budget is None:
        return None
    if PRESET.name not in methods:
        raise InputError(
            f"`--budget {budget}`: the paper's methods ask by their sigma; leave it out, or add osamd-preset to them."
        )
    from osamd.prequential.runs import share

    return share(budget)
