"""Table 1 of the paper: accuracy and label rate with the half-widths of their 90 % intervals over 10 runs."""

from __future__ import annotations

from typing import NamedTuple

from osamd.evaluation.intervals import Mean


class PaperRow(NamedTuple):
    """One row of a column of Table 1."""

    accuracy: Mean
    labels: Mean


_ALL = Mean(1.0, 0.0)


def _column(labels: Mean, accuracies: dict[str, Mean]) -> dict[str, PaperRow]:
    return {name: PaperRow(mean, _ALL if name == "omd-all" else labels) for name, mean in accuracies.items()}


TABLE_1 = {
    "rotating-gaussian": _column(
        Mean(0.182, 0.013),
        {
            "osamd": Mean(0.989, 0.002),
            "paa": Mean(0.985, 0.002),
            "omd-all": Mean(0.989, 0.000),
            "omd-partial": Mean(0.970, 0.010),
            "osamd-no-self-adaptation": Mean(0.982, 0.003),
            "osamd-no-active-query": Mean(0.966, 0.010),
        },
    ),
    "rotating-mnist": _column(
        Mean(0.064, 0.008),
        {
            "osamd": Mean(0.868, 0.008),
            "paa": Mean(0.840, 0.006),
            "omd-all": Mean(0.881, 0.007),
            "omd-partial": Mean(0.817, 0.013),
            "osamd-no-self-adaptation": Mean(0.817, 0.012),
            "osamd-no-active-query": Mean(0.849, 0.010),
        },
    ),
    "portraits": _column(
        Mean(0.038, 0.008),
        {
            "osamd": Mean(0.937, 0.003),
            "paa": Mean(0.920, 0.010),
            "omd-all": Mean(0.940, 0.004),
            "omd-partial": Mean(0.918, 0.011),
            "osamd-no-self-adaptation": Mean(0.918, 0.011),
            "osamd-no-active-query": Mean(0.927, 0.006),
        },
    ),
    "cover-type": _column(
        Mean(0.023, 0.0008),
        {
            "osamd": Mean(0.768, 0.0007),
            "paa": Mean(0.765, 0.0002),
            "omd-all": Mean(0.768, 0.0002),
            "omd-partial": Mean(0.753, 0.0004),
            "osamd-no-self-adaptation": Mean(0.753, 0.0003),
            "osamd-no-active-query": Mean(0.761, 0.0016),
        },
    ),
}
