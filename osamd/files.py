"""The files of one command appear together and complete, or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from osamd.errors import InputError


def user_cache() -> Path:
    """The folder for what can be recreated: OSAMD_CACHE_DIR, or osamd in the user's cache."""
    named = os.environ.get("OSAMD_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "osamd"


class Files:
    """The files that one command writes, kept in `staging` until all are there. Made by `together`."""

    def __init__(self, folder: Path, staging: Path) -> None:
        self.folder = folder
        self.staging = staging
        self.names: list[str] = []

    @property
    def paths(self) -> list[Path]:
        """Where the files are once `together` ends, in the order in which they were written."""
        return [self.folder / name for name in self.names]

    def write(self, name: str, save: Callable[[Path], object]) -> None:
        """Let `save` write the file into the staging folder."""
        with _refused(self.folder / name):
            save(self.staging / name)
        self.names.append(name)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write JSON that every reader accepts: NaN and infinities are refused."""
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        self.write(name, lambda path: path.write_text(text))


@contextmanager
def together(folder: Path, names: Sequence[str]) -> Iterator[Files]:
    """Collect the files `names` of one command, and move them into the folder when the block succeeds.

    The folder is made and tried first, so that no work is done for a folder that cannot be written. If the block fails
    or is interrupted, no file has changed, and folders that were made for it are removed.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     out = Path(scratch) / "results"
    ...     with together(out, ["results.json"]) as files:
    ...         files.write_json("results.json", {"seeds": 10})
    ...         before = files.paths[0].exists()
    ...     before, files.paths[0].exists()
    (False, True)
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _refused(folder):
            folder.mkdir(parents=True, exist_ok=True)
            held = tempfile.TemporaryDirectory(prefix=".partial-", dir=folder, ignore_cleanup_errors=True)
        with held as staging:
            for path in (folder / name for name in names):
                if path.is_dir():
                    raise InputError(
                        f"`together(out={str(folder)!r})`: {path} is a folder; move it away, or name another folder."
                    )
            files = Files(folder, Path(staging))
            yield files
            for name in files.names:
                with _refused(folder / name):
                    os.replace(files.staging / name, folder / name)
    except BaseException:
        for path in made:
            try:
                path.rmdir()
            except OSError:
                break
        raise


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Turn an error of the file system into a sentence with the remedy."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"cannot write {path} ({why}); make room there, or name another folder.") from error
