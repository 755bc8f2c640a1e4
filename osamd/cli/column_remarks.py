"""What several commands say about the columns of a table that they do not use as they are."""

from __future__ import annotations

from collections.abc import Sequence

from osamd.cli.wording import as_option
from osamd.tables import Column, remarks


def column_remarks(columns: Sequence[Column]) -> list[str]:
    """Sentences on the columns, and how to use those that look like ids all the same."""
    kept = [column.name for column in columns if column.identifies]
    return remarks(columns) + ([f"To use them all the same, give --keep {as_option(kept)}."] if kept else [])
