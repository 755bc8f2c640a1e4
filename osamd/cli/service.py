"""The commands of the service: init, serve, streams, token, replay, export, send, those of admins, and others'."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from osamd.cli.label_studio import label_studio
from osamd.cli.service_admin import archive, change, erase, require_service

Folder = Annotated[Path, typer.Argument(metavar="STATE", help="The folder of the service.")]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OSAMD_DATABASE",
        help="postgresql://USER:PASSWORD@HOST/NAME; SQLite in STATE by default. OSAMD_DATABASE keeps it out of sight.",
    ),
]
Share = Annotated[str | None, typer.Option(metavar="SHARE", help="Ask for at most this share of the labels, as in 5%.")]
OwnShare = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Ask for at most this share of the labels, as in 5%. By default 5% with osamd-preset; no limit with the"
        " paper's methods.",
    ),
]
MaxLabels = Annotated[int | None, typer.Option(min=1, help="Ask for at most so many labels.")]
Window = Annotated[int | None, typer.Option(min=1, help="Keep --budget in any so many rounds on end, too.")]
Listed = list[str] | None


def init(
    state: Folder,
    source: Annotated[
        str | None, typer.Option(metavar="TABLE", help="A labelled .csv, .jsonl or .parquet file to start from.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of TABLE that holds the class.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or: a learner that `save` wrote, linear, or with --module.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(metavar="PACKAGE:FUNCTION", help="Or: a function of yours that returns a torch module."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What samples and classes are, in JSON; needed for a module."),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="1,28,28", help="With --module: the shape of one sample; flat by default.")
    ] = None,
    budget: OwnShare = None,
    budget_window: Window = None,
    max_labels: MaxLabels = None,
    classes: Annotated[Listed, typer.Option(help="With --source: all classes, those of TABLE by default.")] = None,
    drop: Annotated[Listed, typer.Option(help="With --source: columns to leave out.")] = None,
    categorical: Annotated[Listed, typer.Option(help="With --source: columns whose numbers are codes.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="A method; see osamd run.")] = None,
    eta: Annotated[float | None, typer.Option(help="Of the paper's methods: the student's step.")] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Of the paper's methods: larger asks for more; where steering starts.")
    ] = None,
    expire_after: Annotated[
        int | None, typer.Option(min=1, help="Give up on labels that were asked for more than so many rounds ago.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the pages call the task.")] = None,
) -> None:
    """Make the folder of a service: from a labelled table, a saved learner, or a torch module with a schema.

    With --source, samples are sent as records of the table's columns; numbers may be of any scale, categories become
    features, and a linear model is fitted to all rows (at most a million). It goes on as the preset, which asks for 5 %
    of the labels where no budget is given, or as the --method named (osamd where --eta or --sigma is given). A module
    is imported from the current folder or an installed package; what it learns is kept, not itself.

    Example: osamd init shop --source orders.csv --label fraud --budget 5%
    """
    require_service()
    from osamd.paper.methods import KNOWN
    from osamd.service import creating

    given = _given(budget, budget_window, max_labels, method=method, eta=eta, sigma=sigma)
    made = creating.make(
        state,
        source=source,
        label=label,
        model=model,
        module=module,
        schema=schema,
        shape=shape,
        columns={"classes": _listed(classes), "drop": _listed(drop) or (), "categorical": _listed(categorical) or ()},
        settings=given,
        expire_after=expire_after,
        title=title,
    )
    told = made.schema
    columns = "an image" if told.columns is None else ", ".join(f"{one.name} ({one.kind})" for one in told.columns[:20])
    more = f" and {len(told.columns) - 20} more" if told.columns is not None and len(told.columns) > 20 else ""
    print(f"Made {state}: {told.features} features, classes {', '.join(str(one.name) for one in told.classes)}.")
    print(f"A sample is: {columns}{more}.")
    learner = made.learner()
    limits = [f"{100 * learner.limits.rate:g} %"] if learner.limits.rate is not None else []
    limits += [f"{learner.limits.max_labels:,}"] if learner.limits.max_labels is not None else []
    kind = KNOWN[learner.method]
    asks = f", and asks for at most {' and '.join(limits)} of the labels" if limits else ""
    if not limits and kind.query == "margin":
        asks = ", and asks without a limit; --budget 5% would set one"
    print(f"The learner is {kind.title}{asks}.")
    if told.ignored:
        print(f"Left out: {', '.join(told.ignored)}.")
    print(f"Start it by: osamd serve --dir {state}")


def serve(
    state: Annotated[Path, typer.Option("--dir", metavar="STATE", help="The folder of the service.")] = Path(
        "osamd-state"
    ),
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make STATE from this saved learner where there is none.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Other than this machine needs tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8000,
    database: Database = None,
    secure_cookie: Annotated[
        bool, typer.Option("--secure-cookie", help="Logins by https alone: say so behind a proxy that speaks it.")
    ] = False,
    as_written: Annotated[
        bool,
        typer.Option("--as-written", help="Where the log cannot be repeated here, take its decisions as they are."),
    ] = False,
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code", help="Run the code that STATE names for its network, though it was made elsewhere."
        ),
    ] = False,
    alarm_webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="OSAMD_ALARM_WEBHOOK", help="Post JSON to it when health goes to alarm, and back."
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="Of the log of the process; json has a line for every request.")
    ] = "text",
) -> None:
    """Serve decisions, queries, and the pages for those who label, until Ctrl-C; all streams of a folder of folders.

    Every sample and label is on disk before its answer leaves. Started again, it goes on where it was.

    Example: osamd serve --dir shop --port 8000
    """
    require_service()
    from osamd.service import server, trust
    from osamd.service.alarm import checked
    from osamd.service.requests import set_up_logs
    from osamd.service.state import CONFIG
    from osamd.service.telemetry import tracing

    set_up_logs(log_format)
    if alarm_webhook is not None:
        checked(alarm_webhook)
    if trust_code:
        os.environ[trust.VARIABLE] = "1"
    where: dict[str, Any] = {"host": host, "port": port, "database": database}
    traces = tracing()
    outward: dict[str, Any] = {"secure_cookie": secure_cookie, "alarm_webhook": alarm_webhook, "tracing": traces}
    many = model is None and state.is_dir() and not (state / CONFIG).exists() and any(state.glob(f"*/{CONFIG}"))
    try:
        if many:
            told = f"osamd serves the streams in {state} at {{url}}; Ctrl-C ends it."
            server.serve_streams(state, **where, **outward, ready=lambda url: _say(told, url))
        else:
            told = f"osamd serves {state} at {{url}} (label: {{url}}/label); Ctrl-C ends it."
            made = server.state_of(state, model)
            server.serve(made, **where, **outward, as_written=as_written, ready=lambda url: _say(told, url))
    finally:
        if traces is not None:
            traces.stop()


def _say(told: str, url: str) -> None:
    print(told.replace("{url}", url), flush=True)


def streams(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder whose folders are services.")],
    archive: Annotated[str | None, typer.Option(metavar="NAME", help="Close this stream; its log is kept.")] = None,
    restore: Annotated[str | None, typer.Option(metavar="NAME", help="Open an archived one again.")] = None,
) -> None:
    """List the streams of a folder, or archive one; `osamd serve --dir ROOT` serves all of them.

    `osamd init ROOT/NAME ...` makes one more, also while they are served.

    Example: osamd streams /var/lib/osamd --archive pumps
    """
    require_service()
    from osamd.service import streams as many
    from osamd.service.state import CONFIG

    for name, away in ((archive, True), (restore, False)):
        if name is not None:
            many.archive(root / name, away)
            print(f"{'Archived' if away else 'Restored'} {name}.")
    if archive is None and restore is None:
        for folder in sorted(path.parent for path in root.glob(f"*/{CONFIG}")):
            print(f"{folder.name}{'  archived' if many.archived(folder) else ''}")


def token(
    state: Folder,
    name: Annotated[str | None, typer.Option(help="Whose token it is; labels are signed by it.")] = None,
    role: Annotated[
        str,
        typer.Option(
            metavar="client|annotator|reader|admin",
            help="Sends samples, answers queries, reads metrics, or changes the stream.",
        ),
    ] = "client",
    days: Annotated[float | None, typer.Option(min=0.0, help="Worthless after so many days; never by default.")] = None,
    revoke: Annotated[str | None, typer.Option(metavar="NAME", help="Make this token worthless.")] = None,
    database: Database = None,
) -> None:
    """Make a token, revoke one, or list their names. A token is shown once.

    As soon as there is one, the service answers nobody without.

    Example: osamd token shop --name anna --role annotator
    """
    require_service()
    from osamd.service import auth
    from osamd.service.server import opened

    with opened(state, database) as (_, log):
        if revoke is not None:
            auth.revoke_token(log, revoke)
            print(f"Revoked {revoke}.")
        elif name is not None:
            print(auth.make_token(log, name, role, days))
        else:
            for known in auth.token_list(log):
                until = f"  until {_moment(known.expires)}" if known.expires is not None else ""
                used = f"  last used {_moment(known.used)}" if known.used is not None else ""
                print(f"{known.name}  {known.role}{until}{used}")


def replay(
    state: Folder,
    sigma: Annotated[
        float | None, typer.Option(help="Of the paper's methods: larger asks for more; with a budget, where it starts.")
    ] = None,
    budget: Share = None,
    budget_window: Window = None,
    max_labels: MaxLabels = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="Another method.")] = None,
    eta: Annotated[float | None, typer.Option(help="Of the paper's methods: the student's step.")] = None,
    database: Database = None,
) -> None:
    """What would have been: play the recorded stream under other settings.

    Labels come when they came; a query that was not asked then has none. The accuracy is estimated from the recorded
    labels for both, so that it is honest for both.

    Example: osamd replay shop --budget 2%
    """
    require_service()
    from osamd.service.replay import show_replay

    show_replay(state, database, _given(budget, budget_window, max_labels, method=method, eta=eta, sigma=sigma))


def export(
    state: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the learner, or the labels.")],
    labels: Annotated[
        bool, typer.Option("--labels", help="Write what people answered: a .csv, .jsonl or .parquet file.")
    ] = False,
    database: Database = None,
) -> None:
    """Write the learner as it stands, to be loaded by `osamd.OSAMD.load`, or the labels; the service may go on.

    Example: osamd export shop labels.csv --labels
    """
    require_service()
    from osamd.service.fold import folded
    from osamd.service.server import opened

    if labels:
        from osamd.service.exporting import export_labels

        print(f"Wrote {file}: {export_labels(state, database, file):,} labels.")
        return
    with opened(state, database) as (its_state, log):
        fold = folded(its_state, log)
    fold.learner.save(file)
    print(f"Wrote {file}: {fold.learner!r}")


def send(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv, .jsonl or .parquet file of samples.")],
    url: Annotated[str, typer.Option(help="Where the service is.")] = "http://127.0.0.1:8000",
    token: Annotated[str | None, typer.Option(envvar="OSAMD_TOKEN", help="A token with the role client.")] = None,
    id: Annotated[str | None, typer.Option(metavar="COLUMN", help="The samples' own names; made up otherwise.")] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Shown to those who label, as text.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Names of images in the folder of media, shown likewise.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Rows in one request.")] = 200,
) -> None:
    """Send the rows of a table to a service, each once; broken off, it goes on where it was.

    Columns that the service does not know are left out. How far it came is kept in FILE.sent.

    Example: osamd send today.csv --url http://127.0.0.1:8000
    """
    require_service()
    from osamd.client import Client, ServiceError
    from osamd.errors import InputError
    from osamd.service import sending

    with Client(url, token=token) as client:
        try:
            sent = sending.send(file, client, id=id, text=text, image=image, batch=batch)
        except ServiceError as error:
            raise InputError(f"`send {file}`: {error} Run it again; it goes on where it was.") from error
    again = f" ({sent.before:,} of them before)" if sent.before else ""
    refused = f"; {sent.refused:,} were refused" if sent.refused else ""
    print(f"Sent {sent.rows:,} rows{again}: {sent.asked:,} labels are asked for{refused}.")


def backup(
    state: Folder,
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, which can be served.")],
    database: Database = None,
) -> None:
    """Copy a service, its log as of this moment, while it goes on; the copy is a folder to serve.

    It is checked: the log of the copy folds to a learner. A log in PostgreSQL becomes one in SQLite there.

    Example: osamd backup shop /backup/shop-monday
    """
    require_service()
    from osamd.service.exporting import back_up

    print(f"Wrote {place}: {back_up(state, database, place)!r}")


def restore(
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `osamd backup` wrote.")],
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The folder to make; it must not be there.")],
) -> None:
    """Make a service again from a backup; what was there must be moved away first.

    Example: osamd restore /backup/shop-monday shop
    """
    require_service()
    from osamd.service.exporting import back_up

    print(f"Made {state}: {back_up(place, None, state)!r}")


def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8000,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the dashboard.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the stream.")] = 0,
) -> None:
    """See it live: a drifting stream of small images, and a simulated person who answers the queries.

    The dashboard moves at once; on the page Label there is time to answer before the simulated person does. All is
    kept in a temporary folder, and gone with Ctrl-C.
    """
    require_service()
    import tempfile
    import webbrowser

    from osamd.service import server
    from osamd.service.demo import Feeder, demo_state

    feeders = []

    def begin(url: str) -> None:
        print(f"The demo is at {url}/dashboard, and {url}/label; Ctrl-C ends it.", flush=True)
        feeders.append(Feeder(url, seed))
        feeders[0].start()
        if not no_browser:
            webbrowser.open(f"{url}/dashboard")

    with tempfile.TemporaryDirectory() as folder:
        try:
            server.serve(demo_state(Path(folder) / "demo", seed), port=port, ready=begin)
        finally:
            for feeder in feeders:
                feeder.stop()


def _given(budget: str | None, budget_window: int | None, max_labels: int | None, **others: Any) -> dict[str, Any]:
    """The settings of a learner that were given."""
    from osamd.prequential.runs import share

    settings = {
        "budget": None if budget is None else share(budget),
        "budget_window": budget_window,
        "max_labels": max_labels,
        **others,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _moment(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _listed(given: Listed) -> list[str] | None:
    from osamd.cli.options import names

    return None if given is None else names(given)


COMMANDS: tuple[Any, ...] = (
    init,
    serve,
    streams,
    token,
    replay,
    export,
    send,
    change,
    archive,
    erase,
    backup,
    restore,
    demo,
    label_studio,
)
