"""Evaluation: intervals, regret and comparators, drift measures, theory, plots."""
