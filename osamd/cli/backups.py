"""`osamd backup` and `osamd restore`: copy a service, and make a service from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.service_options import DatabaseUrl, StateFolder, require_service


def backup(
    state: StateFolder,
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new folder to write.")],
    database: DatabaseUrl = None,
) -> None:
    """Copy a service with its log as of now, while it runs; the copy is a folder that can be served.

    The copy is checked: the learner is rebuilt from its log. A log in PostgreSQL becomes a SQLite file in the copy.

    Example: osamd backup shop /backup/shop-monday
    """
    require_service()
    from osamd.service.exporting import back_up

    print(f"Wrote {place}: {back_up(state, database, place)!r}")


def restore(
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that `osamd backup` wrote.")],
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The folder to make; it must not exist.")],
) -> None:
    """Make a service from a backup; move an existing folder away first.

    Example: osamd restore /backup/shop-monday shop
    """
    require_service()
    from osamd.service.exporting import back_up

    print(f"Made {state}: {back_up(place, None, state)!r}")
