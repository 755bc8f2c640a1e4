"""`osamd streams`: list, archive and restore the streams of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osamd.cli.service_options import require_service


def streams(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder that holds the folders of services.")],
    archive: Annotated[str | None, typer.Option(metavar="NAME", help="Close this stream and keep its log.")] = None,
    restore: Annotated[str | None, typer.Option(metavar="NAME", help="Open an archived stream again.")] = None,
) -> None:
    """List the streams of a folder, or archive one; `osamd serve --dir ROOT` serves all of them.

    `osamd init ROOT/NAME ...` adds a stream, even while the others are served.

    Example: osamd streams /var/lib/osamd --archive pumps
    """
    require_service()
    from osamd.service import streams as many
    from osamd.service.folder import CONFIG

    for name, away in ((archive, True), (restore, False)):
        if name is not None:
            many.archive(root / name, away)
            print(f"{'Archived' if away else 'Restored'} {name}.")
    if archive is None and restore is None:
        for folder in sorted(path.parent for path in root.glob(f"*/{CONFIG}")):
            print(f"{folder.name}{'  archived' if many.archived(folder) else ''}")
