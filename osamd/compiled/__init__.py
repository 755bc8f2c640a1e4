"""The compiled path: the same results as `osamd.paper.play`, round for round, at the speed of compiled code."""

from osamd.compiled.runs import COLUMNS, One, Played, Totals, play

__all__ = ["COLUMNS", "One", "Played", "Totals", "play"]
