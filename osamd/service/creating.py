"""Making the folder of a service: from a labelled table, a saved learner, or a torch module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from osamd.errors import InputError, lookup
from osamd.learner import saving
from osamd.paper.methods import KNOWN, PRESET, method_name
from osamd.service.folder import ServiceState, create, read_schema
from osamd.service.inferred_schema import of_table
from osamd.service.modules import made, networks
from osamd.service.schema import Schema
from osamd.tables import Column


class MadeService(NamedTuple):
    """A new service, and the columns of the table that it was made from, if there was one."""

    state: ServiceState
    columns: list[Column]


def make(
    folder: Path,
    *,
    source: str | None,
    label: str | None,
    model: Path | None,
    module: str | None,
    schema: Path | None,
    shape: str | None,
    columns: Mapping[str, Any],
    settings: Mapping[str, Any],
    expire_after: int | None,
    title: str | None,
) -> MadeService:
    """The body of `osamd init`; `columns` says how a table is read, `settings` are those of the learner."""
    if "method" in settings:
        lookup("init", "method", settings["method"], KNOWN)
    limits: dict[str, Any] = {} if expire_after is None else {"expire_after": expire_after}
    if source is not None:
        if model is not None or module is not None:
            raise InputError(
                f"`init(source={source!r})`: start from a table, from model=... or from module=..., but only from one."
            )
        _refuse("source", schema=schema, shape=shape)
        return _from_table(folder, source, label, columns, settings, limits, title)
    if module is None and model is None:
        raise InputError(
            "`init`: give source=... with label=..., model=..., or module=... with schema=... to start from."
        )
    changed = dict(columns) | {"decimal": columns.get("decimal", ".") != "."}
    _refuse("model" if module is None else "module", label=label, **changed)
    described = None if schema is None else _titled(read_schema(schema), title)
    if module is not None:
        return MadeService(_from_module(folder, module, model, described, shape, settings, limits), [])
    assert model is not None
    _refuse("model", shape=shape)
    state = create(folder, linear(model, settings), schema=described, title=title or model.stem, **limits)
    return MadeService(state, [])


def linear(model: Path, settings: Mapping[str, Any] | None = None) -> Any:
    """The saved linear learner, with these settings changed."""
    from osamd.learner.linear import OSAMD

    if saving.read(model).content.get("kind") == "network":
        raise InputError(
            f"`linear(model={str(model)!r})`: it holds a network; make the service by"
            " `osamd init STATE --model FILE --module PACKAGE:FUNCTION --schema FILE`."
        )
    learner = OSAMD.load(model)
    return learner.remade(**settings) if settings else learner


def _refuse(way: str, **others: Any) -> None:
    """Refuse options that would have no effect."""
    for name, value in others.items():
        if value:
            raise InputError(f"`init({way}=...)`: {name}=... has no effect here; leave it out.")


def _titled(schema: Schema, title: str | None) -> Schema:
    return schema if title is None else schema.model_copy(update={"title": title})


def _from_table(
    folder: Path,
    source: str,
    label: str | None,
    columns: Mapping[str, Any],
    settings: Mapping[str, Any],
    limits: Mapping[str, Any],
    title: str | None,
) -> MadeService:
    from osamd.learner.linear import OSAMD
    from osamd.tables import rows

    table = rows(source, label, warmup=None, **columns)
    x = table.source[0]
    table.close()
    if not len(x):
        raise InputError(f"`init(source={source!r})`: no row has a label in {label!r}.")
    learner = OSAMD.from_rows(table, **settings)
    schema = of_table(table.columns, table.means, table.classes, title or Path(source).stem, x)
    return MadeService(create(folder, learner, schema=schema, **limits), table.columns)


def _from_module(
    folder: Path,
    module: str,
    model: Path | None,
    schema: Schema | None,
    shape: str | None,
    settings: Mapping[str, Any],
    limits: Mapping[str, Any],
) -> ServiceState:
    if schema is None:
        raise InputError("`init(module=...)`: give schema=... too, which describes the samples.")
    network = networks()
    if model is not None:
        if saving.read(model).content.get("kind") != "network":
            raise InputError(f"`init(model={str(model)!r})`: it holds a linear learner; leave module=... out.")
        learner = network.load(model, made(module))
        learner = learner.remade(**settings) if settings else learner
    elif method_name(settings.get("method"), settings) != PRESET.name and not {"eta", "sigma"} <= set(settings):
        raise InputError(
            "`init(module=...)`: the steps of the paper's methods depend on the network; give eta=... and sigma=..., or"
            " leave them and method=... out."
        )
    else:
        learner = network(made(module), classes=[one.name for one in schema.classes], **settings)
    return create(folder, learner, schema=schema, module=module, shape=_shape(shape), **limits)


def _shape(given: str | None) -> list[int] | None:
    if given is None:
        return None
    try:
        sizes = [int(part) for part in given.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise InputError(f"`init(shape={given!r})`: give the sizes of one sample, as in 1,28,28.")
    return sizes
