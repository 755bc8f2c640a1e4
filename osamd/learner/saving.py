"""A learner in one file: safetensors for the arrays, JSON in its header for the rest, and nothing that runs code.

The file is written next to its destination, synced and renamed, so the previous file survives whatever goes wrong. A
digest of the whole content tells a damaged file from a good one.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osamd.errors import InputError
from osamd.numerics import Array
from osamd.paper.geometry import GEOMETRIES, Geometry
from osamd.paper.losses import LOSSES, Loss
from osamd.paper.losses import loss as named_loss
from osamd.paper.methods import InnerLoops, Settings, TeacherStep

VERSION = 1
"""The version of the file format. A reader refuses versions it does not know; a change of format gets a new number."""


class Saved(NamedTuple):
    """The content of a file: arrays by name, and the content of its JSON header."""

    arrays: dict[str, Array]
    content: dict[str, Any]


def packed(saved: Saved) -> bytes:
    """The bytes of the file."""
    from safetensors.numpy import save

    text = json.dumps({"version": VERSION, **saved.content}, allow_nan=False)
    # safetensors writes arrays as they lie in memory, whatever their order.
    arrays = {name: np.require(array, requirements="C") for name, array in saved.arrays.items()}
    return _in_order(save(arrays, {"osamd": text, "digest": _digest(arrays, text)}))


def _in_order(data: bytes) -> bytes:
    """The same file with the keys of its metadata in order: safetensors writes them in any, and equal learners should
    give equal bytes."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(data)[8 + length :]])


def write(path: str | Path, saved: Saved) -> None:
    """Write the file, completely or not at all."""
    place = Path(os.path.realpath(path))  # a link stays one
    data = packed(saved)
    partial = place.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        try:
            with open(partial, "xb") as file:
                if place.exists():
                    os.chmod(partial, place.stat().st_mode & 0o777)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(place.parent)
    except OSError as error:
        raise InputError(
            f"`save({str(path)!r})`: cannot write there ({error.strerror or error}); make the folder, or name another."
        ) from error


def read(path: str | Path) -> Saved:
    """Read what `write` wrote; the error for a missing, damaged or incompatible file is one sentence."""
    if Path(path).is_dir():
        raise InputError(f"`load({str(path)!r})`: it is a folder; give a file that `save` wrote.")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"`load({str(path)!r})`: there is no such file.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"`load({str(path)!r})`: the file cannot be read ({error}).") from error
    return unpacked(data, str(path))


def unpacked(data: bytes, name: str) -> Saved:
    """The content of bytes that `packed` gave; error messages call them `name`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
        # The format: the length of a header in eight bytes, the header, the arrays.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"`load({name!r})`: the file is damaged or was not saved by osamd ({error}); use an earlier copy."
        ) from error
    if not isinstance(header, dict) or not isinstance(header.get("osamd"), str):
        raise InputError(f"`load({name!r})`: the file was not saved by osamd; give one that `save` wrote.")
    try:
        content = json.loads(header["osamd"])
        version = content["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        content, version = {}, VERSION
    if version != VERSION:
        raise InputError(
            f"`load({name!r})`: the file has version {version}, and this osamd reads version {VERSION};"
            " load it with the osamd that wrote it, or install that version."
        )
    if header.get("digest") != _digest(arrays, header["osamd"]):
        raise InputError(
            f"`load({name!r})`: the file is damaged: its digest does not match its content; use an earlier copy."
        )
    if content.get("kind") not in ("linear", "network"):
        raise InputError(f"`load({name!r})`: the file does not say what kind of learner it holds; use an earlier copy.")
    return Saved(arrays, content)


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """Settings as JSON; the loss and the geometry must be osamd's own."""
    loss, geometry, loops = settings.loss, settings.geometry, settings.adaptation
    known = LOSSES.get(loss.name)
    if known is None or named_loss(loss.name, l2=loss.l2, free_bias=loss.free_bias) != loss:
        raise InputError(f"the loss {loss.name!r} is not one of osamd's, and functions are neither saved nor copied.")
    return {
        "eta": float(settings.eta),
        "sigma": float(settings.sigma),
        "loss": {"name": loss.name, "l2": float(loss.l2), "free_bias": bool(loss.free_bias)},
        "geometry": {"name": geometry.name, "numbers": _geometry_numbers(geometry)},
        "teacher": [repr(float(number)) for number in settings.teacher],
        "adaptation": None if loops is None else [int(loops.number), float(loops.rate)],
        "label_rate": None if settings.label_rate is None else float(settings.label_rate),
    }


def settings_from_json(content: Mapping[str, Any]) -> Settings:
    """The settings that `settings_to_json` wrote."""
    geometry = content["geometry"]
    made: Loss = named_loss(**content["loss"])
    return Settings(
        eta=content["eta"],
        sigma=content["sigma"],
        loss=made,
        geometry=GEOMETRIES[geometry["name"]](*map(float, geometry["numbers"])),
        teacher=TeacherStep(*map(float, content["teacher"])),
        adaptation=None if content["adaptation"] is None else InnerLoops(*content["adaptation"]),
        label_rate=content["label_rate"],
    )


def _geometry_numbers(geometry: Geometry) -> list[str]:
    """The arguments that make this geometry, as text, since JSON has no infinities."""
    held = geometry.decision_set
    numbers: dict[str, tuple[Any, ...]] = {
        "euclidean": (),
        "ball": (held.radius,),
        "box": (held.low, held.high),
        "simplex": (held.total, held.low),
        "signed-simplex": (held.total, held.low),
        "p-norm": (held.p, held.radius),
    }
    given = numbers.get(geometry.name)
    again = None if given is None else GEOMETRIES[geometry.name](*given)
    if given is None or again is None or again.step.__code__ != geometry.step.__code__ or again.decision_set != held:
        raise InputError(
            f"the geometry {geometry.name!r} is not one of osamd's, and functions are neither saved nor copied."
        )
    return [repr(float(number)) for number in given]


def _digest(arrays: Mapping[str, Array], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make sure that the rename itself reaches the disk, where folders can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
