"""Table 1 of the paper: accuracy and label rate with the half-widths of their 90 % intervals over 10 runs."""

from __future__ import annotations

from typing import NamedTuple

from osamd.evaluation.intervals import Mean


class PaperRow(NamedTuple):
    accuracy: Mean
    labels: Mean


_ALL = Mean(1.0, 0.0)
_GAUSSIAN = Mean(0.182, 0.013)

TABLE_1 = {
    "rotating-gaussian": {
        "osamd": PaperRow(Mean(0.989, 0.002), _GAUSSIAN),
        "paa": PaperRow(Mean(0.985, 0.002), _GAUSSIAN),
        "omd-all": PaperRow(Mean(0.989, 0.000), _ALL),
        "omd-partial": PaperRow(Mean(0.970, 0.010), _GAUSSIAN),
        "osamd-no-self-adaptation": PaperRow(Mean(0.982, 0.003), _GAUSSIAN),
        "osamd-no-active-query": PaperRow(Mean(0.966, 0.010), _GAUSSIAN),
    },
}
