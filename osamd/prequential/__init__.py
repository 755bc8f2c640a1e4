"""Prequential runs on a user's own table: ask about each row, learn from the few labels that were asked for."""

from osamd.prequential.delays import Delay
from osamd.prequential.runs import Outcome, Run, run

__all__ = ["Delay", "Outcome", "Run", "run"]
