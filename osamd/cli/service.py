"""All commands of the service, in the order in which the help lists them."""

from __future__ import annotations

from typing import Any

from osamd.cli.backups import backup, restore
from osamd.cli.demo import demo
from osamd.cli.init import init
from osamd.cli.label_studio import label_studio
from osamd.cli.replay import replay
from osamd.cli.serve import serve
from osamd.cli.service_admin import archive, change, erase
from osamd.cli.streams import streams
from osamd.cli.tokens import token
from osamd.cli.transfer import export, send

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
