"""The command `osamd`: each command is a call and a print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from osamd.cli.service import COMMANDS
from osamd.reporting.terminal import files, progress, stages

app = typer.Typer(
    name="osamd",
    help="Keep a classifier right on a drifting stream while asking for very few labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEEP = ("rotating-mnist", "portraits", "cover-type")
REPRODUCTIONS = ("rotating-gaussian", *DEEP, "figure3", "all")
LONGEST_HORIZON = 10_000_000
"""Some gigabytes a run: parameters of every round are kept for its regret."""
FEWEST_ROUNDS = 400
"""Of a hard stream with four turns: each has room for one window of the sliding accuracy."""


def folder(given: str | Path) -> Path:
    # Not in the command: there, '' has become the current folder.
    if not str(given).strip():
        raise typer.BadParameter("name a folder; . is the current one.")
    return Path(given)


def _show_version(wanted: bool) -> None:
    if wanted:
        from osamd import __version__

        print(f"osamd {__version__}")
        raise typer.Exit


Seeds = Annotated[int, typer.Option(min=1, help="How many seeds: 0 to this number minus one.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; all cores by default. Results do not depend on it.")
]
Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]


@app.callback()
def osamd(version: Version = False) -> None:
    """Keep a classifier right on a drifting stream while asking for very few labels."""


@app.command()
def reproduce(
    what: Annotated[
        str, typer.Argument(metavar="|".join(REPRODUCTIONS), help="A column of Table 1, Figure 3, or all four columns.")
    ],
    seeds: Seeds = 10,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Methods to run, the paper's six by default; repeat it or separate them by commas. osamd-preset is"
            " not the paper's, and needs no settings.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Of osamd-preset: the most labels it asks for, 5% by default.")
    ] = None,
    settings: Annotated[
        str, typer.Option(metavar="tuned|paper", help="On real data: ours, or the appendix literally.")
    ] = "tuned",
    rounds: Annotated[
        int | None, typer.Option(min=1, help="On real data: play a prefix of so many rounds, for a quick look.")
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
            parser=folder, metavar="FOLDER", help="Folder for results.json and the figures; results/WHAT by default."
        ),
    ] = None,
    workers: Workers = None,
) -> None:
    """Reproduce the paper's table and figures, ours beside the paper's.

    rotating-gaussian: the Rotating Gaussian column of Table 1 and Figure 2(a), accumulated dynamic regret by round
    (about ten seconds on two cores).

    rotating-mnist, portraits, cover-type: the other columns and Figures 2(b) to 2(d), accumulated loss by round, with
    networks (the extra deep; minutes on a GPU). An interrupted run goes on from its last checkpoint when it is started
    again.

    figure3: accuracy against query rate on Rotating Gaussian, sigma varied (about half a minute).

    all: the four columns, each in a folder of its own.

    Each writes results.json (accuracies and label rates as fractions; the table prints percent) and each figure as PNG
    and SVG.

    Example: osamd reproduce rotating-gaussian --seeds 10 --methods osamd,omd-all
    """
    chosen = _known(what, methods)
    given = {"settings": None if settings == "tuned" else settings, "rounds": rounds, "device": device}
    _refuse_unused(what, {**given, "data-dir": data_dir}, workers)
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
            _gaussian(name, chosen, seeds, workers, folder, rate)


def _gaussian(what: str, methods: list[str], seeds: int, workers: int | None, out: Path, budget: float | None) -> None:
    from osamd.reproduce import results, rotating_gaussian

    sweep = what == "figure3"
    sigmas = rotating_gaussian.SIGMAS if sweep else (rotating_gaussian.SIGMA,)
    with files(out, "results.json", "figure3" if sweep else "figure2a") as deliver:
        total = rotating_gaussian.number_of_runs(methods, seeds, sigmas)
        with progress(f"{what}: {total} runs of {rotating_gaussian.ROUNDS} rounds", total) as step:
            runs = rotating_gaussian.experiment(methods, seeds, sigmas, budget=budget, workers=workers, progress=step)
        deliver(results.figure_3(runs) if sweep else results.table_1(runs[sigmas[0]], budget))


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
    from osamd.reproduce import columns, deep, deep_report

    checkpoint = out / ".checkpoint"
    with files(out, "results.json", columns.COLUMNS[name].figure) as deliver:
        try:
            with stages() as told:
                outcome = deep.experiment(
                    name,
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
        except KeyboardInterrupt:
            if checkpoint.exists():
                print(f"osamd: the same command goes on from {checkpoint}.", file=sys.stderr)
            raise
        deliver(deep_report.report(outcome))
    deep.forget(checkpoint)


@app.command()
def run(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A .csv, .jsonl or .parquet file; - is standard input.")
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column that holds the class.")],
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Ask for at most this share of the labels, as in 5%. By default 5% with osamd-preset; no limit with"
            " the paper's methods.",
        ),
    ] = None,
    max_labels: Annotated[int | None, typer.Option(min=1, help="Ask for at most so many labels.")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="So many first rows are the labelled source.")] = 1000,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="osamd-preset, the default: no step size; a student that trains itself between labels, a memory, and"
            " experts that learn from labels alone. Of the paper: osamd (the default with --eta or --sigma): asks where"
            " the margin is small, and trains itself on pseudolabels; osamd-no-self-adaptation: asks so, learns from"
            " labels alone; osamd-no-active-query: asks uniformly, and trains itself; omd-partial: asks uniformly,"
            " labels alone; omd-all: every label; paa: passive-aggressive, asks where the margin is small, one model.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:ROUNDS",
            help="Labels come late: fixed:100, random:100 (mean), bursty:500 (in batches), lost:0.2 (a share that"
            " never comes); several with commas. The table shows what it costs.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Play the paper's methods beside it, at equal labels.")
    ] = False,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            help="All classes, with commas, or the option repeated; one that holds a comma in double quotes. Those of"
            " the warm-up rows by default."
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out, with commas, as in --classes.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Columns whose numbers are codes of categories, with commas.")
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option(help="Of the paper's methods: the student's step; 0.3 / (features + 1) by default."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="Of the paper's: larger asks for more; with a budget, where steering starts; 1 by default."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl|parquet", help="Where the name does not say it; - is csv.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws that decide what is asked, and of delays.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Play so many seeds, from --seed on, and give means with 90 % intervals; 5 with --compare or --delay,"
            " else 1. Figures are those of the first.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=folder, metavar="FOLDER", help="Folder for the report; results/NAME by default."),
    ] = None,
) -> None:
    """Try it on your own labelled table: how accurate would it have been, with how few labels?

    The rows are a stream, in their order. The first ones (--warmup) train a linear model; then every row is decided
    before its label is known, and the label is told only where it was asked for, so the accuracy is honest. Beside it
    stand the model of the warm-up left alone, and always the commonest class.

    Columns: the first 1000 rows (or the warm-up, where it is longer) decide. Numbers may be of any unit and scale;
    true and false are 1 and 0; other text is a category with a feature of its own, at most 100 a column, and a
    category that turns up later gives zeros. Dates and times, columns without a name and columns without a value are
    left out. Missing are: an empty value, ?, NA, N/A, #N/A, <NA>, NaN, NaT, null, None, and numbers that are not
    finite; a missing number is the mean so far, a missing category a category. Rows without a label are left out. CSV
    has a header, and , ; tab or | between values; .gz is unpacked. Parquet needs the extra tables, figures the extra
    plot.

    Writes results.json (accuracies and rates as fractions, means over the seeds), report.html (one file, opens
    offline) and its figures.

    Example: osamd run sensor.csv --label state --budget 5% --delay random:100,lost:0.1 --compare
    """
    from osamd.cli.run import names, run_table

    run_table(
        table,
        label,
        out,
        budget=budget,
        max_labels=max_labels,
        warmup=warmup,
        method=method,
        delay=delay,
        compare=compare,
        classes=names(classes) if classes else None,
        drop=names(drop),
        categorical=names(categorical),
        eta=eta,
        sigma=sigma,
        format=format,
        seed=seed,
        seeds=seeds,
    )


@app.command()
def labels(
    where: Annotated[
        str, typer.Argument(metavar="STREAM|FILE", help="rotating-gaussian, another stream by name, or a table.")
    ],
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of a table: the column with the class.")] = None,
    budgets: Annotated[
        str, typer.Option(metavar="SHARES", help="Shares of the labels, separated by commas.")
    ] = "1%,2%,5%,10%,20%",
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", help="Of ours, all by default; repeat it or separate them by commas."),
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Play scikit-activeml and River too, where they are installed.")
    ] = True,
    seeds: Seeds = 5,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Of a stream, 2000 by default; the first ones of a table, else all.")
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, help="So many labelled samples are the source.")] = 200,
    classes: Annotated[list[str] | None, typer.Option(help="Of a table, as in osamd run.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Of a table: columns to leave out, as there.")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Of a table: columns of codes, as there.")] = None,
    format: Annotated[
        str | None, typer.Option(metavar="csv|jsonl|parquet", help="Where the name does not say it; - is csv.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=folder, metavar="FOLDER", help="Folder for the files; results/labels-NAME by default."),
    ] = None,
    workers: Workers = None,
) -> None:
    """How many labels are needed? Accuracy against labels, ours beside scikit-activeml and River.

    Every method plays the same stream at every budget, from a model fitted to the same labelled source: the preset,
    the paper's methods, and three strategies of scikit-activeml and one of River where these are installed; on a
    table scikit-activeml's also with a model that is refitted to all labels so far at every label. Full supervision
    is OMD (all), told every label. The answer is a sentence: which share of the labels reaches that minus one point.
    One that does not keep the budget stands at the labels it took.

    Streams by name: rotating-gaussian, rotating-balls (separable), gaussian-flip (the labels swap half-way),
    gaussian-recurring (the features change sign, and back), gaussian-priors (one class at nine in ten from half-way
    on) and two-point (of Theorem 2). A table is read as osamd run reads it, and held in memory; its rows are the
    stream, and seeds draw the queries alone.

    scikit-activeml takes milliseconds a round: it plays 3 seeds of 2000 rounds, and fewer of longer streams; a long
    table is quicker with --no-peers. rotating-gaussian takes about a minute on two cores.

    Writes labels.json (shares as fractions) and the figure as PNG and SVG.

    Example: osamd labels sensor.csv --label state --budgets 1%,5%,20%
    """
    from osamd.cli.run import names
    from osamd.prequential.label_report import draw_labels

    draw_labels(
        where,
        label,
        out,
        budgets=names([budgets]),
        methods=None if methods is None else names(methods),
        peers=peers,
        seeds=seeds,
        rounds=rounds,
        warmup=warmup,
        classes=names(classes) if classes else None,
        drop=names(drop),
        categorical=names(categorical),
        format=format,
        workers=workers,
    )


@app.command()
def theory(
    seeds: Seeds = 10,
    horizons: Annotated[
        str | None, typer.Option(help="Horizons T, separated by commas; 500 to 32000, doubling, by default.")
    ] = None,
    out: Annotated[
        Path, typer.Option(parser=folder, metavar="FOLDER", help="Folder for theory.json and the figure.")
    ] = Path("results/theory"),
    workers: Workers = None,
) -> None:
    """Measure OSAMD against its bounds as the horizon T grows.

    On a separable rotating stream, with the smoothed hinge on a ball and eta = V^(1/3) T^(-1/3): pseudolabel errors
    beside Lemma 1's bound, dynamic regret beside Theorem 1's, and the exponent of T fitted to the mean regret (the
    theory allows 2/3). The same where the classes overlap, beside Lemma 3 and Theorem 4. Then Theorem 2's stream: the
    regret of each method with its queries and without.
    """
    steps = None if horizons is None else _horizons(horizons)
    from osamd.reproduce import theory as measured
    from osamd.reproduce import theory_report

    separable, overlapping = steps or measured.HORIZONS, steps or measured.GENERAL_HORIZONS
    total = (len(separable) + len(overlapping)) * seeds
    with files(out, "theory.json", "theory") as deliver:
        with progress(f"theory: {total} runs", total) as step:
            grown = measured.growth(separable, seeds, workers=workers, progress=step)
            general = measured.general_case(overlapping, seeds, workers=workers, progress=step)
        deliver(theory_report.report(grown, general, theory_report.two_point_regrets()))


@app.command()
def robustness(
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="drift|tables|harm|late", help="All by default; repeat it or separate them by commas."),
    ] = None,
    seeds: Seeds = 10,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_ROUNDS,
            max=LONGEST_HORIZON,
            help="Rounds of every stream; 4000 by default, and 20000 in the group harm.",
        ),
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES", help="Shares of the labels, separated by commas, as in 1%,5%; each group has its own."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(parser=folder, metavar="FOLDER", help="Folder for robustness.json.")] = Path(
        "results/robustness"
    ),
    workers: Workers = None,
) -> None:
    """Measure the default learner on hard streams: is it right there, and does it ever do harm?

    drift: flips, noise, imbalance, irrelevant and unscaled features around a rotation, beside the paper's OSAMD at the
    same budget and OMD with every label. After a flip, rounds and labels are counted until it is back within a point
    of what OMD (all) has without one.

    tables: a trending column, outliers, 40 classes, 500 features, 6 % positives; accuracy and balanced accuracy, from
    a source and from nothing, beside the source model left alone.

    harm: streams that stand still, where all queries are answered, half of the answers are lost, late by 1,000 rounds
    or wrong in 20 %, or where nobody answers: points above the source model left alone, and which bars hold. It needs
    the extra sklearn.

    late: the streams of drift, with labels that come 200 rounds late.

    Accuracy is against the true labels. Some ten minutes on two cores, most of them for harm.

    Example: osamd robustness --group harm --seeds 2 --rounds 4000 --budgets 5%
    """
    from osamd.cli.run import names
    from osamd.prequential.runs import share
    from osamd.reproduce.robustness import groups
    from osamd.reproduce.robustness.plans import RobustnessPlan

    chosen = groups.named(names(group))
    plan = RobustnessPlan(seeds, rounds, None if budgets is None else [share(one) for one in names([budgets])])
    with files(out, "robustness.json") as deliver:
        total = groups.number_of_tasks(chosen, plan)
        with progress(f"robustness: {total} tasks", total) as step:
            deliver(groups.measure(chosen, plan, workers=workers, progress=step))


for _command in COMMANDS:
    app.command()(_command)


def _refuse_unused(what: str, real_data: dict[str, Any], workers: int | None) -> None:
    """Refuse options that would do nothing; `real_data` are those for streams of real data, None where not given."""
    from osamd.errors import InputError, nearest

    settings = real_data["settings"]
    if settings not in (None, "tuned", "paper"):
        raise InputError(f"`--settings {settings}`: no such settings. {nearest(settings, ('tuned', 'paper'))}")
    for option, value in real_data.items():
        if value is not None and what not in (*DEEP, "all"):
            raise InputError(f"`reproduce {what} --{option} {value}`: only streams of real data take this option.")
    if workers is not None and what in DEEP:
        raise InputError(
            f"`reproduce {what} --workers {workers}`: networks are not spread over processes; leave it out."
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


def _horizons(given: str) -> list[int]:
    from osamd.errors import InputError

    try:
        steps = sorted({int(part) for part in given.split(",")})
    except ValueError:
        steps = []
    if len(steps) < 2 or steps[0] < 2:
        raise InputError(f"`--horizons {given}`: give at least two whole numbers above 1, as in 1000,2000,4000.")
    if steps[-1] > LONGEST_HORIZON:
        raise InputError(f"`--horizons {given}`: {steps[-1]} is too long; give at most {LONGEST_HORIZON} rounds.")
    return steps


# Typer carries its own click or imports one, by version; this is its base of every refusal in both.
_Refused: Any = typer.BadParameter.__mro__[2]


def _sentence(error: Any) -> str:
    """A refusal of typer's in our form; it is a box on a terminal otherwise."""
    words = " ".join(error.format_message().split()).rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "osamd"
    return f"{command}: {words} (try {command} --help)."


def run_command(command: typer.Typer, name: str, arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; an error of the user's is one sentence and 2."""
    from osamd.errors import InputError

    try:
        code = command(arguments, prog_name=name, standalone_mode=False) or 0
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except _Refused as error:
        # Without words it is the command alone, and the help has been shown.
        if error.format_message():
            print(_sentence(error), file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer's own code for Ctrl-C, which it says nothing about
        print(f"{name}: interrupted; no results were written.", file=sys.stderr)
    return int(code)


def main(arguments: list[str] | None = None) -> int:
    """Run `osamd`."""
    return run_command(app, "osamd", arguments)
