"""Files are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from osamd.errors import InputError


def writable(out: Path) -> Path:
    """The folder for results, made and tried before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(
            f"`--out {out}`: cannot write there ({error.strerror}); name a folder you may write."
        ) from error
    return out


def write(path: Path, save: Callable[[Path], object]) -> Path:
    """Save a file under a temporary name beside it, then rename: a reader never sees half of one."""
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        save(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write JSON that every reader takes: NaN and infinities are refused."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    return write(path, lambda partial: partial.write_text(text))
