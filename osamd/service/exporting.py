"""What `osamd export` and `osamd backup` write, completely or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from osamd.errors import InputError
from osamd.service import labels_out, trust
from osamd.service.database_tables import tables
from osamd.service.fold import folded
from osamd.service.folder import CONFIG, LOG, START, open_state, save_config, try_out
from osamd.service.log import Log, schema_by
from osamd.service.server import opened


def export_labels(folder: Path, database: str | None, file: Path) -> int:
    """Write all answered queries into a file, and return their number."""
    form, number = labels_out.form_of(file), 0
    partial = file.with_name(f".{file.name}.partial")
    with opened(folder, database) as (state, log):
        learner = state.learner()
        try_out(
            learner, state.config
        )  # a learner without a source knows the shape of a score only after its first sample
        for one in schema_by(log, state.schema).classes[len(state.schema.classes) :]:
            learner.add_class(one.name)

        def counted() -> Iterator[dict[str, Any]]:
            nonlocal number
            for row in labels_out.rows(state, log, learner):
                number += 1
                yield row

        try:
            with partial.open("wb") as out:
                for part in labels_out.written(counted(), form):
                    out.write(part)
            os.replace(partial, file)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InputError(f"`export {file}`: cannot write there ({error.strerror}); name another file.") from error
    return number


def back_up(folder: Path, database: str | None, place: Path) -> Any:
    """Copy a folder and its log as of one moment, and see that the copy can be served; its learner."""
    if place.exists():
        raise InputError(f"{place} is there already; name a new folder.")
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with opened(folder, database) as (state, log):
            partial.mkdir(parents=True, mode=0o700)
            shutil.copyfile(folder / START, partial / START)
            save_config(partial / CONFIG, state.config.model_copy(update={"database": None}))
            if state.module() is not None:  # its code is trusted here
                trust.mark(partial, state.config.module or "", state.identity)
            if state.media_folder.is_dir() and not Path(state.config.media).is_absolute():
                shutil.copytree(state.media_folder, partial / state.config.media)
            _copy_log(log, partial / LOG)
        copied, copy = open_state(partial), Log(partial / LOG)
        try:
            learner = folded(copied, copy).learner
        finally:
            copy.close()
        os.replace(partial, place)
    except OSError as error:
        raise InputError(f"`backup {place}`: cannot write there ({error.strerror}); name another folder.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return learner


def _copy_log(log: Log, place: Path) -> None:
    """Copy all tables in one transaction, so that they show the same moment."""
    copy = Log(place)
    try:
        copy.make_tables()
        with log.reading() as source, copy.writing() as target:
            if source.dialect.name == "postgresql":
                source.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for table in tables.sorted_tables:
                found = source.execution_options(stream_results=True).execute(sql.select(table))
                for block in found.partitions(1000):
                    target.execute(sql.insert(table), [dict(row._mapping) for row in block])
    finally:
        copy.close()
