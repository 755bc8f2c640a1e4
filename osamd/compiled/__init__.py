"""The compiled path: the same results as `osamd.paper.play`, round for round, at the speed of compiled code."""

from osamd.compiled.compiled_runs import COLUMNS, CompiledRun, StepwiseLearner, Totals, play

__all__ = ["COLUMNS", "CompiledRun", "StepwiseLearner", "Totals", "play"]
