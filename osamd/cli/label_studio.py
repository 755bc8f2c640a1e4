"""`osamd label-studio`: let people answer queries in Label Studio."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from osamd.cli.service_options import HERE, require_service
from osamd.errors import InputError


def label_studio(
    label_studio: Annotated[
        str, typer.Option(metavar="URL", help="The address of Label Studio.")
    ] = "http://127.0.0.1:8080",
    label_studio_token: Annotated[
        str | None,
        typer.Option(
            envvar="LABEL_STUDIO_API_KEY",
            help="A Label Studio token, legacy or personal; the variable keeps it off the command line.",
        ),
    ] = None,
    url: Annotated[str, typer.Option(help="The address of the service, with /NAME for one of many streams.")] = HERE,
    token: Annotated[str | None, typer.Option(envvar="OSAMD_TOKEN", help="A token with the role annotator.")] = None,
    project: Annotated[
        str | None,
        typer.Option(help="The title or number of the project; it is made if there is none."),
    ] = None,
    predictions: Annotated[
        bool, typer.Option("--predictions/--no-predictions", help="Whether tasks carry the model's prediction.")
    ] = True,
    every: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between two passes.")] = 5.0,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Listen here for webhooks; each starts a pass."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Run one pass, and end.")] = False,
) -> None:
    """Let people answer queries in Label Studio: each query becomes a task, and its annotation becomes the answer.

    It runs until Ctrl-C. It keeps no state, so it may be killed at any moment and started again.

    Example: osamd label-studio --url http://127.0.0.1:8000 --label-studio http://127.0.0.1:8080
    """
    require_service()
    from osamd.client import Client
    from osamd.service.label_studio.bridge import Bridge, run
    from osamd.service.label_studio.studio import LabelStudio
    from osamd.service.label_studio.wake import listening

    if not label_studio_token:
        raise InputError(
            "`label-studio`: Label Studio needs a token; set LABEL_STUDIO_API_KEY (find it under Account & Settings)."
        )
    wake = threading.Event()

    def wait(seconds: float) -> bool:
        wake.wait(seconds)
        wake.clear()
        return True

    def say(words: str) -> None:
        print(words, flush=True)

    with (
        Client(url, token=token) as service,
        LabelStudio(label_studio, label_studio_token) as studio,
        listening(listen, wake) as address,
    ):
        if not once:
            woken = f"; webhooks go to {address}" if address else ""
            say(f"Queries of {url} become tasks at {label_studio}{woken}; stop it with Ctrl-C.")
        run(Bridge(service, studio, project, predictions), wait, say, every, once)
