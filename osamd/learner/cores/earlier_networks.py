"""The preset for networks in files of earlier versions: arrays that they lack, or hold in another shape."""

from __future__ import annotations

import numpy as np

from osamd.checks import require_shaped, require_within
from osamd.fleet import pair
from osamd.fleet.preset_fleet import PresetFleet
from osamd.numerics import Array


def up_to_date(arrays: dict[str, Array], fleet: PresetFleet) -> dict[str, Array]:
    """The arrays of a file of any version, as this one has them."""
    return with_expected(with_averages(with_places(with_counts(arrays), fleet)), fleet)


def with_counts(arrays: dict[str, Array]) -> dict[str, Array]:
    """The arrays of a file; those of an earlier version do not say how sure the source is, so it keeps its weight."""
    counts = arrays.get("counts")
    if counts is None or counts.shape != (1, pair.SURE):
        return arrays
    return arrays | {"counts": np.append(counts, np.zeros((1, pair.COUNTS - pair.SURE)), 1)}


def with_places(arrays: dict[str, Array], fleet: PresetFleet) -> dict[str, Array]:
    """The arrays of a file; those of an earlier version, whose memories had LEAST_PLACES places, with today's.

    The samples that it remembers come first, in the order in which they came.
    """
    counts = arrays.get("counts")
    if counts is None or counts.shape != (1, pair.PLACES):
        return arrays
    former, places = pair.LEAST_PLACES, fleet.places
    labels = float(counts[0, pair.LABELS])
    require_within("counts", labels, 0, 2.0**53, whole=True)
    count = labels if places == former else min(labels, former)
    found = arrays | {"counts": np.append(counts, [[places, 0.0, 0.0]], 1)}
    found["counts"][0, pair.LABELS] = count
    if places > former:
        ages = (np.arange(labels - count, labels) % former).astype(int)
        for name in ("samples", "labels"):
            rows = getattr(fleet.state, name).cpu().numpy().copy()
            saved = require_shaped(arrays, name, rows[:, : former + pair.RECENT])
            rows[:, : len(ages)], rows[:, places:] = saved[:, ages], saved[:, former:]
            found[name] = rows
    return found


def with_averages(arrays: dict[str, Array]) -> dict[str, Array]:
    """The arrays of a file. In one of an earlier version the student speaks for itself: its average begins there."""
    rows = arrays.get("rows")
    return arrays if "averages" in arrays or rows is None else arrays | {"averages": np.atleast_2d(rows)[:1]}


def with_expected(arrays: dict[str, Array], fleet: PresetFleet) -> dict[str, Array]:
    """The arrays of a file; those of an earlier version know no shares of classes, so self-training stays as it was."""
    return {"expected": np.zeros_like(fleet.state.expected.cpu().numpy())} | arrays
