"""`osamd token`: make, revoke and list tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from osamd.cli.service_options import DatabaseUrl, StateFolder, require_service


def token(
    state: StateFolder,
    name: Annotated[str | None, typer.Option(help="Whose token it is; labels are signed with this name.")] = None,
    role: Annotated[
        str,
        typer.Option(
            metavar="client|annotator|reader|admin",
            help="A client sends samples, an annotator answers queries, a reader reads metrics, an admin changes the"
            " stream.",
        ),
    ] = "client",
    days: Annotated[
        float | None, typer.Option(min=0.0, help="The token expires after this many days; never by default.")
    ] = None,
    revoke: Annotated[str | None, typer.Option(metavar="NAME", help="Revoke this token.")] = None,
    database: DatabaseUrl = None,
) -> None:
    """Make a token, revoke one, or list their names. A token is shown only once.

    As soon as one token exists, the service refuses requests without a token.

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


def _moment(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
