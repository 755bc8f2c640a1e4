"""Whether a folder may run code: the module of a network is imported by name, and a stranger's folder may name any.

A folder that was made on this machine carries a mark: a digest of the name under a secret key of the user. Without the
mark nothing is imported until the operator allows it, with `osamd serve --trust-code` or OSAMD_TRUST_CODE=1.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

VARIABLE = "OSAMD_TRUST_CODE"
MARK = "trusted"
"""The file in STATE."""


def trusts(folder: Path, module: str, identity: str) -> bool:
    """Whether this folder may import this code; if the operator allows it, the folder is marked for later."""
    if os.environ.get(VARIABLE) == "1":
        mark(folder, module, identity)
        return True
    try:
        found = (folder / MARK).read_text().strip()
    except (OSError, ValueError):
        return False
    key = _key()
    return key is not None and hmac.compare_digest(found.encode(), _digest(key, module, identity).encode())


def mark(folder: Path, module: str, identity: str) -> None:
    """Mark the folder as trusted; if the mark cannot be written, the operator must allow it every time."""
    key = _key()
    if key is None:
        return
    with suppress(OSError):
        handle = os.open(folder / MARK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w") as file:
            file.write(_digest(key, module, identity) + "\n")


def _digest(key: bytes, module: str, identity: str) -> str:
    return hmac.new(key, f"{module}\n{identity}".encode(), hashlib.sha256).hexdigest()


def _key() -> bytes | None:
    """The user's key, made if there is none; None if it can be neither read nor made."""
    home = os.environ.get("XDG_CONFIG_HOME")
    try:
        place = (Path(home) if home else Path.home() / ".config") / "osamd" / "key"
        if not place.exists():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            drawn = place.with_name(f".key-{secrets.token_hex(4)}")
            with open(os.open(drawn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(32))
            with suppress(FileExistsError):
                os.link(drawn, place)  # another process may have made it first
            drawn.unlink()
        return place.read_bytes()
    except (OSError, RuntimeError):
        return None
