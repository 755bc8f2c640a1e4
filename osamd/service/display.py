"""What people see of a sample beyond the numbers that the model gets: text, fields, an image, a sound, a link.

It is kept for queries, shown on the label page, and never learned from. Raw values are kept, too, if they cannot be
recovered from the model's numbers: free text, dates, unknown categories, missing values.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import sqlalchemy as sql
from pydantic import Field, StringConstraints, field_validator, model_validator

from osamd.service.database_tables import displays, media
from osamd.service.schema import In

LARGEST_MEDIA = 2 * 2**20
"""The most bytes of an image or a sound in a request."""
MOST_FIELDS = 500

_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_SOUNDS = {b"ID3": "audio/mpeg", b"\xff\xfb": "audio/mpeg", b"\xff\xf3": "audio/mpeg", b"OggS": "audio/ogg"}
_SOUNDS |= {b"fLaC": "audio/flac"}
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

Name = Annotated[str, StringConstraints(pattern=r"^[^\x00/\\]{1,200}(/[^\x00/\\]{1,200}){0,5}$")]
"""A file in the media folder or in its subfolders."""
FieldValue = float | bool | Annotated[str, Field(max_length=10_000)] | None


def kind_of(content: bytes) -> str | None:
    """The type of an image or a sound, judged by its first bytes only; None for anything else."""
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12])
    if content[4:8] == b"ftyp":
        return "audio/mp4"
    return next((kind for start, kind in (_IMAGES | _SOUNDS).items() if content.startswith(start)), None)


class Medium(In):
    """An image or a sound: its bytes, or its name in the media folder."""

    base64: str | None = Field(None, max_length=LARGEST_MEDIA * 4 // 3 + 4)
    file: Name | None = None

    @model_validator(mode="after")
    def _one(self) -> Medium:
        if (self.base64 is None) == (self.file is None):
            raise ValueError("give base64 or file, and not both")
        if self.file is not None and any(part in (".", "..") for part in self.file.split("/")):
            raise ValueError("the file must be in the media folder")
        return self

    @property
    def content(self) -> bytes | None:
        """The bytes, if they were sent."""
        return None if self.base64 is None else base64.b64decode(self.base64, validate=True)


class ForPeople(In):
    """What people see of a sample; the model learns nothing from it."""

    text: str | None = Field(None, max_length=100_000)
    fields: dict[Annotated[str, Field(max_length=200)], FieldValue] | None = Field(None, max_length=MOST_FIELDS)
    image: Medium | None = None
    audio: Medium | None = None
    link: Annotated[str, StringConstraints(pattern=r"^https?://[\x21-\x7e]{1,2000}$")] | None = None

    @field_validator("image", "audio")
    @classmethod
    def _is_one(cls, given: Medium | None, info: Any) -> Medium | None:
        if given is not None and given.base64 is not None:
            try:
                kind = kind_of(given.content or b"")
            except (binascii.Error, ValueError):
                raise ValueError("the base64 cannot be read") from None
            if kind is None or not kind.startswith(info.field_name):
                known = "PNG, JPEG, GIF or WebP" if info.field_name == "image" else "WAV, MP3, Ogg, FLAC or M4A"
                raise ValueError(f"the bytes are not a supported {info.field_name}; send {known}")
        return given


class Display(NamedTuple):
    """What is kept of one sample for people: its raw values by column, and what was sent for people to see."""

    raw: Mapping[str, Any] | None
    shown: ForPeople | None


def keep_displays(connection: sql.Connection, kept: Iterable[tuple[int, Display]]) -> None:
    """Store the displays in their own tables."""
    bodies, contents = [], []
    for number, (raw, shown) in kept:
        body: dict[str, Any] = {} if raw is None else {"raw": dict(raw)}
        if shown is not None:
            body |= shown.model_dump(exclude_none=True, include={"text", "fields", "link"})
            for place in ("image", "audio"):
                one: Medium | None = getattr(shown, place)
                if one is None:
                    continue
                body[place] = one.file
                content = one.content
                if content is not None:
                    kind = kind_of(content)
                    contents.append({"round": number, "place": place, "kind": kind, "content": content})
        bodies.append({"round": number, "body": json.dumps(body)})
    connection.execute(sql.insert(displays), bodies)
    if contents:
        connection.execute(sql.insert(media), contents)


def displays_of(connection: sql.Connection, rounds: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The stored displays of these rounds."""
    found: dict[int, dict[str, Any]] = {}
    for start in range(0, len(rounds), 500):
        chosen = sql.select(displays).where(displays.c.round.in_(rounds[start : start + 500]))
        found |= {row.round: json.loads(row.body) for row in connection.execute(chosen)}
    return found


def medium_of(connection: sql.Connection, number: int, place: str, folder: Path) -> tuple[str, bytes] | None:
    """The type and the bytes of an image or a sound; None if there is none that pages may show."""
    chosen = sql.select(media.c.kind, media.c.content).where(media.c.round == number, media.c.place == place)
    row = connection.execute(chosen).first()
    if row is not None:
        return row.kind, bytes(row.content)
    name = displays_of(connection, [number]).get(number, {}).get(place)
    if not name:
        return None
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():  # a symbolic link may lead out of the folder
        return None
    content = path.read_bytes() if path.stat().st_size <= 16 * LARGEST_MEDIA else b""
    kind = kind_of(content)
    return (kind, content) if kind is not None and kind.startswith(place) else None
