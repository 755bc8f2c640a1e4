"""Prequential runs on a user's own table: decide on each row, then learn from the few labels that were asked for."""

from osamd.evaluation.answers import Delay
from osamd.prequential.labels import Curve, CurvePoint, Curves, LabelsNeeded, label_curve
from osamd.prequential.outcomes import Outcome, Run
from osamd.prequential.runs import run
from osamd.prequential.sweeps import Sweep, SweepCell, SweepRow, sweep

__all__ = [
    "Curve",
    "CurvePoint",
    "Curves",
    "Delay",
    "LabelsNeeded",
    "Outcome",
    "Run",
    "Sweep",
    "SweepCell",
    "SweepRow",
    "label_curve",
    "run",
    "sweep",
]
