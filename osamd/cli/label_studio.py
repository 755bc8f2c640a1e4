"""The command `osamd label-studio`."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from osamd.errors import InputError


def label_studio(
    label_studio: Annotated[str, typer.Option(metavar="URL", help="Where Label Studio is.")] = "http://127.0.0.1:8080",
    label_studio_token: Annotated[
        str | None,
        typer.Option(
            envvar="LABEL_STUDIO_API_KEY", help="A token of it, of either kind; the variable keeps it out of sight."
        ),
    ] = None,
    url: Annotated[str, typer.Option(help="Where the service is; of many streams, that of one.")] = (
        "http://127.0.0.1:8000"
    ),
    token: Annotated[str | None, typer.Option(envvar="OSAMD_TOKEN", help="A token with the role annotator.")] = None,
    project: Annotated[
        str | None, typer.Option(help="The project there, by its title or number; made where there is none.")
    ] = None,
    predictions: Annotated[
        bool, typer.Option("--predictions/--no-predictions", help="Whether tasks carry the model's prediction.")
    ] = True,
    every: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between two looks.")] = 5.0,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Look at once when Label Studio posts a webhook to it.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> None:
    """Let people answer queries in Label Studio: queries become tasks there, annotations become answers, once each.

    It goes on until Ctrl-C, keeps nothing, and may be killed at any moment and started again.

    Example: osamd label-studio --url http://127.0.0.1:8000 --label-studio http://127.0.0.1:8080
    """
    from osamd.cli.service_admin import require_service

    require_service()
    from osamd.client import Client
    from osamd.service.label_studio.api import LabelStudio
    from osamd.service.label_studio.bridge import Bridge, run
    from osamd.service.label_studio.wake import listening

    if not label_studio_token:
        raise InputError(
            "`label-studio`: Label Studio wants a token; set LABEL_STUDIO_API_KEY (its page Account & Settings has it)."
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
            woken = f"; webhooks to {address}" if address else ""
            say(f"Queries of {url} become tasks at {label_studio}{woken}; Ctrl-C ends it.")
        run(Bridge(service, studio, project, predictions), wait, say, every, once)
