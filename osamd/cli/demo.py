"""`osamd demo`: a live service with a simulated annotator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.service_options import require_service


def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8000,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the dashboard.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the stream.")] = 0,
) -> None:
    """Watch a service live: a drifting stream of small images, and a simulated person who answers the queries.

    The dashboard moves at once. On the page Label you have a moment to answer before the simulated person does.
    Everything is kept in a temporary folder, which is removed when you press Ctrl-C.
    """
    require_service()
    import tempfile
    import webbrowser

    from osamd.service import server
    from osamd.service.demo import Feeder, demo_state

    feeders = []

    def begin(url: str) -> None:
        print(f"The demo runs at {url}/dashboard and {url}/label; stop it with Ctrl-C.", flush=True)
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
