"""Prequential runs on a user's own table: ask about each row, learn from the few labels that were asked for."""

from osamd.evaluation.answers import Delay
from osamd.prequential.labels import Answer, Curve, Curves, Point, label_curve
from osamd.prequential.runs import Outcome, Run, run

__all__ = ["Answer", "Curve", "Curves", "Delay", "Outcome", "Point", "Run", "label_curve", "run"]
