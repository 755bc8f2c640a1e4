"""Raw data sets: read from the user's folder or downloaded once, and refused unless their checksums are right."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError, reject
from osamd.files import user_cache

VARIABLE = "OSAMD_DATA_DIR"
"""The environment variable that names the data folder if no `data_dir` is given."""

CHUNK = 1 << 16
PATIENCE = 30.0
"""The timeout of a download, in seconds without an answer."""

Arrays = dict[str, NDArray[Any]]


class RawFile(NamedTuple):
    """A file of a public data set: its path in the data folder, its URL, and its checksum.

    If it has no checksum, the reader checks the unpacked content. With `member`, the URL is a zip file that contains
    it.

    >>> RawFile("mnist/train-labels-idx1-ubyte.gz", "https://example.org/train-labels-idx1-ubyte.gz").member is None
    True
    """

    path: str
    url: str
    sha256: str | None = None
    member: str | None = None


class DataFolder(NamedTuple):
    """The folder of raw files, its name in errors, and whether missing files are downloaded; see `data_folder`."""

    path: Path
    named: str
    downloads: bool

    def read(self, raw: RawFile) -> bytes:
        """The bytes of a file, which is downloaded first if necessary; refused if the checksum is wrong."""
        path = self.path / raw.path
        if self.downloads:
            download(raw, self.path, self.named)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise InputError(
                f"{self.named}: {path} is missing; get it from {raw.url} and put it there, or name no folder, and it is"
                " downloaded."
            ) from error
        except OSError as error:
            raise InputError(f"{self.named}: cannot read {path} ({error.strerror}); make it readable.") from error
        if raw.sha256 is not None and sha256(content) != raw.sha256:
            raise self.damaged(path, raw.url)
        return content

    def damaged(self, path: Path, home: str) -> InputError:
        """The error for a file that is not what it should be."""
        return InputError(
            f"{self.named}: {path} is damaged or of another edition; delete it and get it again from {home}."
        )


def data_folder(call: str, data_dir: str | Path | None = None) -> DataFolder:
    """The folder `data_dir`, or the one that OSAMD_DATA_DIR names, or the user's cache, where files are downloaded to.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     found = data_folder("portraits", scratch)
    ...     found.path == Path(scratch), found.downloads
    (True, False)
    """
    if data_dir is not None:
        if not isinstance(data_dir, str | Path) or not str(data_dir).strip():
            raise reject(call, "data_dir", data_dir, "data_dir must be the path of a folder; . is the current one.")
        path, named = Path(data_dir), f"`{call}(data_dir={str(data_dir)!r})`"
    elif os.environ.get(VARIABLE):
        path, named = Path(os.environ[VARIABLE]), f"`{call}()` with {VARIABLE}={os.environ[VARIABLE]}"
    else:
        named = f"`{call}()`"
        return DataFolder(user_cache(), named, True)
    if not path.is_dir():
        raise InputError(
            f"{named}: there is no such folder; name one that holds the folders mnist, covertype and portraits, or none"
            " at all to download."
        )
    return DataFolder(path, named, False)


def sha256(content: bytes) -> str:
    """The checksum as text.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def gunzip(content: bytes) -> bytes | None:
    """The content of a gzip file, or None if it is damaged.

    >>> gunzip(gzip.compress(b"1,2\\n")), gunzip(b"1,2\\n")
    (b'1,2\\n', None)
    """
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return None


def cached(key: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of `make`, kept in the user's cache under a key that identifies everything they depend on.

    A cache that cannot be read or written costs time and nothing else; its files carry checksums of their own.
    """
    path = user_cache() / "prepared" / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return dict(kept)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent, ignore_cleanup_errors=True) as staging:
            whole = Path(staging) / path.name
            np.savez(whole, allow_pickle=False, **arrays)
            os.replace(whole, path)
    except OSError:
        pass
    return arrays


def download(raw: RawFile, folder: Path, named: str) -> None:
    """Download one file into the folder unless it is there already; an interrupted download is resumed."""
    try:
        pooch = importlib.import_module("pooch")
    except ImportError:
        raise InputError(
            f"{named}: downloading needs pooch; run pip install 'osamd[deep]', or name a folder with the data by"
            f" data_dir or {VARIABLE}."
        ) from None
    part = folder / f"{raw.path}.part"

    def fetch(url: str, output: str, _: object) -> None:
        resume(url, part)
        if raw.member is None:
            os.replace(part, output)
            return
        try:
            with zipfile.ZipFile(part) as archive, archive.open(raw.member) as packed, open(output, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
        except (zipfile.BadZipFile, KeyError, zlib.error, EOFError) as error:
            raise ValueError(f"no zip with {raw.member}") from error
        finally:
            part.unlink()

    known = None if raw.sha256 is None else f"sha256:{raw.sha256}"
    files = pooch.create(path=folder, base_url="", registry={raw.path: known}, urls={raw.path: raw.url})
    by_hand = f"put the file into a folder as {raw.path} and name that folder by data_dir or {VARIABLE}"
    try:
        files.fetch(raw.path, downloader=fetch)
    except (OSError, HTTPException) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(
            f"{named}: cannot download {raw.url} to {folder} ({why}); run it again to go on from where it stopped, or"
            f" {by_hand}."
        ) from error
    except ValueError as error:  # pooch raises it if the checksum differs
        raise InputError(
            f"{named}: what {raw.url} sent is damaged or of another edition; try again later, or {by_hand}."
        ) from error


def resume(url: str, part: Path) -> None:
    """Download to the file `part`, resuming from what an earlier attempt left in it.

    The rest is requested as an HTTP range; a server without ranges sends the whole file, which replaces the part.
    """
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "osamd"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416:
                raise
            if error.headers.get("Content-Range") == f"bytes */{have}":
                return  # the part was complete
        part.unlink()  # longer than the file: it belongs to another one
        resume(url, part)
        return
    with answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with part.open("ab" if have else "wb") as file, _bar(url.rsplit("/", 1)[-1], have, total) as bar:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                bar.update(bar.task_ids[0], completed=have)
    if total is not None and have != total:
        raise ConnectionError(f"the connection broke after {have} of {total} bytes")


def _bar(name: str, have: int, total: int | None) -> Any:
    """A progress bar on stderr, so that stdout holds results only."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    bar.add_task(name, total=total, completed=have)
    return bar
