"""`osamd serve`: serve one stream, or all streams of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from osamd.cli.service_options import DatabaseUrl, require_service


def serve(
    state: Annotated[Path, typer.Option("--dir", metavar="STATE", help="The folder of the service.")] = Path(
        "osamd-state"
    ),
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make STATE from this saved learner if it does not exist.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Any other than this machine's own needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8000,
    database: DatabaseUrl = None,
    secure_cookie: Annotated[
        bool, typer.Option("--secure-cookie", help="Send login cookies over https only; set it behind an https proxy.")
    ] = False,
    as_written: Annotated[
        bool,
        typer.Option(
            "--as-written", help="If the log cannot be reproduced on this machine, keep the decisions it records."
        ),
    ] = False,
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code", help="Run the code that STATE names for its network, although STATE was made elsewhere."
        ),
    ] = False,
    alarm_webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="OSAMD_ALARM_WEBHOOK",
            help="Post JSON to this address when the health becomes alarm, and when the alarm is over.",
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="The format of the process log; json logs every request.")
    ] = "text",
) -> None:
    """Serve decisions, queries, and the pages for annotators until Ctrl-C.

    If STATE is a folder of service folders, all of them are served. Every sample and label is on disk before its
    response is sent, so a service that is started again continues where it stopped.

    Example: osamd serve --dir shop --port 8000
    """
    require_service()
    from osamd.service import server, trust
    from osamd.service.alarm import checked
    from osamd.service.folder import CONFIG
    from osamd.service.request_ids import set_up_logs
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
            ready = _announcement(f"osamd serves the streams in {state} at {{url}}; stop it with Ctrl-C.")
            server.serve_streams(state, **where, **outward, ready=ready)
        else:
            ready = _announcement(f"osamd serves {state} at {{url}} (label: {{url}}/label); stop it with Ctrl-C.")
            made = server.state_of(state, model)
            server.serve(made, **where, **outward, as_written=as_written, ready=ready)
    finally:
        if traces is not None:
            traces.stop()


def _announcement(sentence: str) -> Callable[[str], None]:
    """A function that prints the sentence with the address of the service."""
    return lambda url: print(sentence.replace("{url}", url), flush=True)
