"""What `osamd export` writes beside the learner: files whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from osamd.errors import InputError
from osamd.service import labels
from osamd.service.server import opened
from osamd.service.state import try_out


def export_labels(folder: Path, database: str | None, file: Path) -> int:
    """Write all answered queries into a file; how many there were."""
    form, number = labels.form_of(file), 0
    partial = file.with_name(f".{file.name}.partial")
    with opened(folder, database) as (state, log):
        learner = state.learner()
        try_out(learner, state.config)  # one that began from nothing knows what a score is after its first sample

        def counted() -> Iterator[dict[str, Any]]:
            nonlocal number
            for row in labels.rows(state, log, learner):
                number += 1
                yield row

        try:
            with partial.open("wb") as out:
                for part in labels.written(counted(), form):
                    out.write(part)
            os.replace(partial, file)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InputError(f"`export {file}`: cannot write there ({error.strerror}); name another file.") from error
    return number
