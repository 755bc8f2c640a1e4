"""Portraits: a century of American yearbook photographs, to be classified by gender."""

from __future__ import annotations

import hashlib
import importlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osamd.errors import InputError, lookup
from osamd.streams.downloads import Arrays, DataFolder, RawFile, cached, data_folder
from osamd.streams.real.recorded import Recorded

SIDE = 32
GENDERS = ("F", "M")
PUBLISHED = 37_921
"""Images of the published data set; the prepared file holds those whose year is known."""

HOME = "https://people.eecs.berkeley.edu/~shiry/projects/yearbooks/yearbooks.html"
FACES = "faces_aligned_small_mirrored_co_aligned_cropped_cleaned"
PREPARED = RawFile(
    "portraits/portraits_32x32.npz", HOME, "d182b835fb13259351d51de751ea82ba2ff3ae3a0c026924de6cd9e5e9dc3865"
)


class Span(NamedTuple):
    """The rows of a stream, starting with its source; if `rounds` is None, the stream takes all rows that follow."""

    first: int
    source_size: int
    rounds: int | None


ROWS = {"reported": Span(0, 2_000, 16_000), "held-out": Span(18_000, 2_000, None)}


class _Photo(NamedTuple):
    name: str
    gender: int
    digest: bytes
    pixels: NDArray[np.uint8]


def portraits(data_dir: str | Path | None = None, *, rows: str = "reported") -> Recorded:
    """The paper's Portraits: the first 2,000 images by year as source, the next 16,000 as stream, pixels in [0, 1].

    The data folder's subfolder `portraits` may hold the authors' archive (or the folder it unpacks to), which gives all
    37,921 images in the order of their file names: year, state, city, school. Otherwise `portraits_32x32.npz` there
    gives the 27,849 images whose year is known, in random order within a year. `rows="held-out"` is for choosing
    settings: 2,000 images from row 18,000 on as source, and all that follow.

    >>> stream = portraits("data")  # doctest: +SKIP
    >>> stream.rounds, stream.shape  # doctest: +SKIP
    (16000, (1, 32, 32))
    """
    span = lookup("portraits", "rows", rows, ROWS)
    folder = data_folder("portraits", data_dir)._replace(downloads=False)
    arrays, about = _found(folder)
    source = span.first + span.source_size
    end = len(arrays["labels"]) if span.rounds is None else source + span.rounds
    if not source < end <= len(arrays["labels"]):
        raise InputError(
            f"{folder.named}: {len(arrays['labels'])} portraits are there, but these rows need {max(end, source + 1)};"
            f" get the whole data set, of {PUBLISHED} images, from {HOME}."
        )
    years = arrays["years"]
    facts = {
        "data_set": "Portraits",
        "data_set_rows": len(years),
        "published_rows": PUBLISHED,
        "rows": rows,
        "source_years": [int(years[span.first]), int(years[source - 1])],
        "stream_years": [int(years[source]), int(years[end - 1])],
        **about,
    }
    images = arrays["images"][span.first : end].reshape(end - span.first, -1)
    labels = arrays["labels"][span.first : end].astype(np.int64)
    shape = (1, SIDE, SIDE)
    return Recorded("portraits", shape, GENDERS, span.source_size, facts, images, labels, lambda raw: raw / 255.0)


def _found(folder: DataFolder) -> tuple[Arrays, dict[str, Any]]:
    """Images, labels and years in order, from the best source that is there, and the facts that depend on it."""
    place = folder.path / "portraits"
    archive, unpacked, prepared = place / f"{FACES}.tar.gz", place / FACES, folder.path / PREPARED.path
    by_name = "file name: year, state, city, school"
    if archive.is_file():
        try:
            with archive.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            arrays = cached(f"portraits-{digest}", lambda: from_archive(archive)[0])
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise folder.damaged(archive, HOME) from error
        return arrays, {"order": by_name, "sha256": {f"portraits/{archive.name}": digest}}
    if unpacked.is_dir():
        try:
            arrays, digest = from_folder(unpacked)
        except OSError as error:
            raise folder.damaged(Path(error.filename or unpacked), HOME) from error
        return arrays, {"order": by_name, "sha256": {f"portraits/{FACES}": digest}}
    if prepared.exists():
        with np.load(io.BytesIO(folder.read(PREPARED)), allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in ("images", "labels", "years")}
        return arrays, {"order": "year, at random within a year", "sha256": {PREPARED.path: PREPARED.sha256}}
    raise InputError(
        f"{folder.named}: there are no portraits in {place}; download {archive.name} from {HOME} and put it there"
        " without unpacking it."
    )


def from_archive(path: Path) -> tuple[Arrays, str]:
    """The photographs of the authors' archive, and a checksum of their names and contents."""

    def photos() -> Iterator[_Photo]:
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if _is_photo(member.name) else None
                if file is not None:
                    yield _prepared(PurePosixPath(member.name), file.read())

    return _in_order(photos())


def from_folder(path: Path) -> tuple[Arrays, str]:
    """The photographs below F and M in a folder, and a checksum of their names and contents."""
    files = (file for gender in GENDERS for file in (path / gender).glob("*.png") if _is_photo(file.as_posix()))
    return _in_order(_prepared(PurePosixPath(file.as_posix()), file.read_bytes()) for file in files)


def _is_photo(path: str) -> bool:
    """Whether the path looks like F/1905_Ohio_Cleveland_Central_0-1.png, in any folder."""
    file = PurePosixPath(path)
    return file.suffix == ".png" and file.parent.name in GENDERS and file.name[:4].isdecimal()


def _prepared(path: PurePosixPath, content: bytes) -> _Photo:
    """One photograph of 186 x 171 RGB pixels as 32 x 32 grey ones: resized first, as in Kumar et al. (2020)."""
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise InputError("`portraits()`: photographs are read by Pillow; run pip install pillow.") from error
    with pillow.open(io.BytesIO(content)) as image:
        small = image.convert("RGB").resize((SIDE, SIDE), pillow.Resampling.LANCZOS).convert("L")
    return _Photo(path.name, GENDERS.index(path.parent.name), hashlib.sha256(content).digest(), np.asarray(small))


def _in_order(photos: Iterator[_Photo]) -> tuple[Arrays, str]:
    """The photographs of both genders by file name, and so by year."""
    ordered = sorted(photos, key=lambda photo: (photo.name, photo.gender))
    arrays: Arrays = {
        "images": np.array([photo.pixels for photo in ordered], dtype=np.uint8).reshape(-1, SIDE, SIDE),
        "labels": np.array([photo.gender for photo in ordered], dtype=np.int8),
        "years": np.array([int(photo.name[:4]) for photo in ordered], dtype=np.int16),
    }
    whole = b"".join(GENDERS[p.gender].encode() + p.name.encode() + p.digest for p in ordered)
    return arrays, hashlib.sha256(whole).hexdigest()
