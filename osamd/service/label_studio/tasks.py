"""Queries as tasks of Label Studio: what people see, the model's prediction, and the key that links the two."""

from __future__ import annotations

import base64
import struct
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from osamd.errors import InputError

KEY, ROUND = "osamd_key", "osamd_round"
"""The fields of a task by which the bridge recognises it."""
NONE = "osamd:none-of-these"
"""The choice for "no class fits"."""
MOST_FIELDS = 50
"""The most values of a sample that a task shows; the others are only counted."""
SMALLEST_SIDE = 256
"""The least pixels of the longer side of an image; smaller images are enlarged."""
TAGS = {
    "image": {"tag": "Image", "zoom": "true", "zoomControl": "true"},
    "audio": {"tag": "Audio"},
    "fields": {"tag": "Table"},
    "link": {"tag": "HyperText"},
    "values": {"tag": "Table"},
}
"""What a labelling configuration shows besides the text, and how; `values` are the numbers that the model gets."""

Fetch = Callable[[int, str], tuple[str, bytes]]
"""Gets the image or the sound of a round from the service: its type and its bytes."""


def key_of(query: Mapping[str, Any]) -> str:
    """The key of a query: its round and the moment it was asked, so that two streams in one project do not mix.

    >>> key_of({"round": 17, "asked_at": 1.5})
    '17@1500'
    """
    return f"{query['round']}@{round(1000 * query['asked_at'])}"


def kinds_of(queries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The entries of `TAGS` that these queries contain."""
    return [kind for kind in TAGS if any(_has(kind, query) for query in queries)]


def _has(kind: str, query: Mapping[str, Any]) -> bool:
    seen = query["display"] or {}
    if kind == "image" and query["image"] is not None:
        return True
    return bool(query["features"]) if kind == "values" else bool(seen.get(kind))


def config(schema: Mapping[str, Any], kinds: Sequence[str], folded: bool = False) -> str:
    """The labelling configuration of a stream: what a sample shows, and beside it the classes.

    `folded`: people judge what was sent for them to see, so the values are collapsed.
    """
    view = ET.Element("View", style="display: flex; gap: 24px")
    shown = ET.SubElement(view, "View", style="flex: 3; min-width: 0")
    ET.SubElement(shown, "Text", name="sample", value="$sample")
    for kind in kinds:
        tag = dict(TAGS[kind])
        place = shown
        if kind == "values" and folded:
            place = ET.SubElement(ET.SubElement(shown, "Collapse", open="false"), "Panel", value="Values")
        ET.SubElement(place, tag.pop("tag"), tag | {"name": kind, "value": f"${kind}"})
    beside = ET.SubElement(view, "View", style="flex: 1; min-width: 12em; position: sticky; top: 0; align-self: start")
    choices = ET.SubElement(beside, "Choices", name="label", toName="sample", choice="single-radio", required="true")
    for one in schema["classes"]:
        choices.append(_choice(one, schema))
    ET.SubElement(choices, "Choice", value="None of these", alias=NONE)
    return ET.tostring(view, encoding="unicode")


def _choice(one: Mapping[str, Any], schema: Mapping[str, Any]) -> ET.Element:
    titles = [other["title"] for other in schema["classes"]]
    plain = one["title"] and titles.count(one["title"]) == 1 and one["title"] != "None of these"
    told = {"value": one["title"] if plain else str(one["name"]), "alias": str(one["name"])}
    return ET.Element("Choice", told | ({"hint": one["about"]} if one["about"] else {}))


def kinds_in(label_config: str, schema: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """What a project's configuration shows, and if it lacks classes, the configuration with them added."""
    try:
        view = ET.fromstring(label_config)
    except ET.ParseError:
        view = ET.Element("View")
    choices = next((one for one in view.iter("Choices") if one.get("name") == "label"), None)
    values = {one.get("value") for one in view.iter()}
    if choices is None or "$sample" not in values:
        raise InputError(
            "the project in Label Studio must show $sample and have Choices named label; let the bridge make one with"
            " another project=..., and change that as you like."
        )
    known = {one.get("alias", one.get("value")) for one in choices.iter("Choice")}
    missing = [_choice(one, schema) for one in schema["classes"] if str(one["name"]) not in known]
    choices.extend(missing)
    kinds = [kind for kind in TAGS if f"${kind}" in values]
    return kinds, ET.tostring(view, encoding="unicode") if missing else None


def task(query: Mapping[str, Any], kinds: Sequence[str], fetch: Fetch, predicted: bool = True) -> dict[str, Any]:
    """The task of a query, with something for each of the kinds that the project shows, and with the prediction."""
    seen = query["display"] or {}
    name = f"{query['id']} (round {query['round']})" if query["id"] else f"Round {query['round']}"
    data: dict[str, Any] = {KEY: key_of(query), ROUND: query["round"], "sample": seen.get("text") or name}
    makers = {"image": _image, "audio": _audio, "fields": _fields, "link": _link, "values": _values}
    data |= {kind: makers[kind](query, fetch) for kind in kinds}
    if not predicted:
        return {"data": data}
    guess = str(query["guess"])
    chosen = {"from_name": "label", "to_name": "sample", "type": "choices", "value": {"choices": [guess]}}
    prediction = {"model_version": "osamd", "score": query["probabilities"][guess], "result": [chosen]}
    return {"data": data, "predictions": [prediction]}


def _fields(query: Mapping[str, Any], _: Fetch) -> dict[str, str]:
    return _table((query["display"] or {}).get("fields") or [])


def _values(query: Mapping[str, Any], _: Fetch) -> dict[str, str]:
    return _table(query["features"] or [])


def _table(shown: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    told = {one["name"]: _value(one) for one in shown[:MOST_FIELDS]}
    return told | ({"…": f"and {len(shown) - MOST_FIELDS} more"} if len(shown) > MOST_FIELDS else {})


def _value(one: Mapping[str, Any]) -> str:
    value = one["value"]
    if value is None or isinstance(value, bool):
        return {None: "missing", True: "yes", False: "no"}[value]
    return f"{value:g} {one.get('unit', '')}".strip() if isinstance(value, float) else str(value)


def _link(query: Mapping[str, Any], _: Fetch) -> str:
    link = (query["display"] or {}).get("link")
    if not link:
        return ""
    return f'<a href="{escape(link)}" target="_blank" rel="noopener noreferrer">{escape(link)}</a>'


def _image(query: Mapping[str, Any], fetch: Fetch) -> str:
    if (query["display"] or {}).get("image"):
        return _inline(*fetch(query["round"], "image"))
    blank = {"height": 1, "width": 1, "channels": 1, "pixels": [1.0]}
    return _inline("image/png", png(query["image"] or blank))


def _audio(query: Mapping[str, Any], fetch: Fetch) -> str:
    if (query["display"] or {}).get("audio"):
        return _inline(*fetch(query["round"], "audio"))
    silence = struct.pack("<4sI8sIHHIIHH4sI2x", b"RIFF", 38, b"WAVEfmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 2)
    return _inline("audio/wav", silence)


def _inline(kind: str, content: bytes) -> str:
    """The content as a data URL: people in Label Studio have no token of the service."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def png(image: Mapping[str, Any]) -> bytes:
    """The PNG of an image whose pixels are shares from 0 to 1; a small one is enlarged, pixel by pixel."""
    shares = np.array(image["pixels"]).reshape(image["height"], image["width"], image["channels"])
    times = max(1, SMALLEST_SIDE // max(image["height"], image["width"]))
    pixels = np.round(255 * shares).astype(np.uint8).repeat(times, axis=0).repeat(times, axis=1)
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # each line begins with its filter type: none
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
