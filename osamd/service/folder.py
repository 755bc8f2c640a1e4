"""The folder of a service: the schema of its samples, its initial learner, and its log if that is in SQLite.

STATE/service.json         the schema of samples and classes, limits, and where the module of a network comes from
STATE/start.safetensors    the learner before its first sample
STATE/log.sqlite           the log, unless the service uses PostgreSQL
STATE/trusted              for a network: the mark that the code it names may run on this machine
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from osamd.errors import InputError
from osamd.files import together
from osamd.learner import blocks, saving
from osamd.learner.ask_tell import AskTell
from osamd.numerics import Array
from osamd.service import trust
from osamd.service.inferred_schema import of_learner, of_table
from osamd.service.modules import made, networks
from osamd.service.schema import Schema, Strict

CONFIG, START, LOG = "service.json", "start.safetensors", "log.sqlite"


class Config(Strict):
    """The content of STATE/service.json. It may be edited while the service is stopped, except for `kind`, the features
    and the names of the classes."""

    format: Literal[1] = 1
    kind: Literal["linear", "network"]
    module: str | None = None
    """For a network: "package.module:function", which returns the module; only the service imports it."""
    shape: list[int] | None = None
    """For a network: the shape of one sample."""
    samples: Schema
    expire_after: int | None = Field(None, ge=1)
    """Queries expire after this many rounds."""
    max_pending: int = Field(10_000, ge=1, le=100_000)
    """The most pending queries; beyond it, the oldest one expires for each new one."""
    max_batch: int = Field(1000, ge=1, le=100_000)
    """The most samples or labels per request."""
    wild: float | None = Field(1000.0, gt=1.0, allow_inf_nan=False)
    """A value this many times larger than any before is refused, because it would spoil the model; None: never."""
    second_opinion: float = Field(0.0, ge=0.0, le=1.0)
    """The share of queries that a second person judges, too; the learner learns from the first answer."""
    most_unsure: int = Field(3, ge=1, le=100)
    """A query ends after this many people don't know the answer."""
    media: str = "media"
    """The folder of the images and sounds that samples name, relative to STATE or absolute."""
    database: str | None = None
    """The address of the log, without user and password, written at the first use; None: in STATE, or not used yet."""


class ServiceState:
    """An opened folder of a service."""

    def __init__(self, folder: Path, config: Config, start: bytes) -> None:
        self.folder, self.config, self._start = folder, config, start
        self.identity = hashlib.sha256(start).hexdigest()
        """A digest of the initial learner of the log."""
        self._made: Any = None

    @property
    def schema(self) -> Schema:
        return self.config.samples

    def module(self) -> Any:
        """The module of a network, made by the operator's own function; untrusted code is not imported."""
        name = self.config.module
        if self._made is None and name is not None:
            if not trust.trusts(self.folder, name, self.identity):
                raise InputError(
                    f"{self.folder / CONFIG} names code to run, {name!r:.200}, and the folder was not made"
                    f" here; if you trust it, run `osamd serve --dir {self.folder} --trust-code` once, or set"
                    f" {trust.VARIABLE}=1."
                )
            self._made = made(name)
        return self._made

    @property
    def log_file(self) -> Path:
        return self.folder / LOG

    @property
    def media_folder(self) -> Path:
        return self.folder / self.config.media

    def see(self, place: str | None) -> None:
        """Refuse a database other than the one with the log (None: the file in STATE).

        A service that looked elsewhere for its log would silently start a second one.
        """
        known = self.config.database
        if place is None and known is not None:
            raise InputError(
                f"the log of {self.folder} is in {known}; give it with database=... or OSAMD_DATABASE. If it was moved,"
                f" change `database` in {self.folder / CONFIG}."
            )
        if place not in (None, known) and (known is not None or self.log_file.exists()):
            raise InputError(
                f"`database={place!r}`: the log of {self.folder} is in {known or self.log_file};"
                f" leave it as it was. If the log was moved, change `database` in {self.folder / CONFIG}."
            )

    def remember(self, place: str | None) -> None:
        """Write the address of the log into `service.json` at its first use."""
        if place is None or place == self.config.database:
            return
        self.config = self.config.model_copy(update={"database": place})
        with together(self.folder, [CONFIG]) as files:
            files.write(CONFIG, _saver(self.config))
        sync(self.folder)

    def learner(self, data: bytes | None = None) -> AskTell:
        """The learner of a snapshot, or the initial learner of the log."""
        if self.config.kind == "linear":
            from osamd.learner.linear import OSAMD

            return OSAMD.from_bytes(self._start if data is None else data)
        module = self.module()
        network: AskTell = networks().from_bytes(self._start if data is None else data, module)
        return network

    def samples(self, rows: Array) -> Array:
        """The rows in the shape that the learner takes."""
        return rows if self.config.shape is None else rows.reshape(len(rows), *self.config.shape)


def create(
    folder: Path,
    learner: AskTell,
    *,
    schema: Schema | None = None,
    module: str | None = None,
    shape: list[int] | None = None,
    title: str = "osamd",
    **limits: Any,
) -> ServiceState:
    """Make the folder of a service with this learner, which is the initial learner of its log."""
    if (folder / CONFIG).exists():
        raise InputError(f"{folder} is already a service; serve it, or name another folder.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder.")
    if learner.pending:
        raise InputError("the learner has pending queries; answer or expire them before it becomes a service.")
    kind: Literal["linear", "network"] = "linear" if module is None else "network"
    if getattr(learner, "_modes", {}).get("dropout"):
        raise InputError(
            "the network uses random dropout, which no log can reproduce; make the learner with dropout=False."
        )
    if schema is None:
        schema = _schema_of(learner, title)
    limits.setdefault("expire_after", learner.expire_after)
    names = [one.name for one in schema.classes]
    if names != learner.classes:
        raise InputError(f"the schema's classes are {names}, and the learner's {learner.classes}; give them alike.")
    if shape is not None and math.prod(shape) != schema.features:
        raise InputError(
            f"`create(shape={list(shape)})`: that is {math.prod(shape)} numbers, and a sample of the schema has"
            f" {schema.features}; give them alike."
        )
    try:
        config = Config(kind=kind, module=module, shape=shape, samples=schema, **limits)
    except ValidationError as error:
        raise InputError(f"the service cannot be made: {_fault(error)}.") from error
    try_out(learner.copy(), config)
    # The service expires queries itself, and writes that into the log.
    start = learner.remade(expire_after=None).to_bytes() if learner.expire_after else learner.to_bytes()
    with together(folder, [CONFIG, START]) as files:
        folder.chmod(0o700)
        files.write(START, lambda path: _written(path, start))
        files.write(CONFIG, _saver(config))
    state = ServiceState(folder, config, start)
    if module is not None:
        trust.mark(folder, module, state.identity)
    sync(folder)
    sync(folder.parent)
    return state


def save_config(path: Path, config: Config) -> None:
    """Write `service.json`."""
    _saver(config)(path)


def _saver(config: Config) -> Callable[[Path], None]:
    text = json.dumps(config.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"
    return lambda path: _written(path, text.encode())


def _written(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, and sync it to disk."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_state(folder: Path) -> ServiceState:
    """Open a folder that `create` made."""
    if not (folder / CONFIG).is_file() or not (folder / START).is_file():
        raise InputError(f"{folder} is not a service; make one with `osamd init {folder} ...`.")
    try:
        config = Config.model_validate(json.loads((folder / CONFIG).read_text()))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / CONFIG}: {_fault(error)}; correct the file.") from error
    start = (folder / START).read_bytes()
    names, known = (
        [one.name for one in config.samples.classes],
        saving.unpacked(start, str(folder / START)).content.get("classes"),
    )
    if names != known:
        raise InputError(f"{folder / CONFIG}: the classes are {names}, and the learner's {known}; correct the file.")
    return ServiceState(folder, config, start)


def read_schema(path: Path) -> Schema:
    """The schema in a JSON file."""
    try:
        return Schema.model_validate_json(path.read_text())
    except OSError as error:
        raise InputError(f"`read_schema(schema={str(path)!r})`: it cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"`read_schema(schema={str(path)!r})`: {_fault(error)}; correct the file.") from error


def _fault(error: Exception) -> str:
    """The fault of a file, and its place in the file."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{place}: {said}" if place else said


def try_out(learner: AskTell, config: Config) -> None:
    """Play a round and a block on a copy, to check that the learner accepts such samples, and to compile both."""
    rows = np.zeros((2, *(config.shape or [config.samples.features])))
    learner.tell(learner.ask(rows[0]), learner.classes[0])
    blocks.play(learner, rows)


def _schema_of(learner: AskTell, title: str) -> Schema:
    from osamd.learner.linear import OSAMD

    if not isinstance(learner, OSAMD):
        raise InputError("a network needs a description of its samples: give schema=... too.")
    try:
        if learner.encoder is not None:
            columns = learner.encoder.columns
            fills = {column.name: column.fill for column in columns if column.fill is not None}
            return of_table(columns, fills, learner.classes, title)
        return of_learner(learner.classes, learner.features or learner.weights.shape[-1] - 1, title)
    except ValidationError as error:
        raise InputError(f"the classes or features of the learner need other names: {_fault(error)}.") from error
