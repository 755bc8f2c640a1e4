"""Cores: what a learner calls to play one round, with the book of its budget and the meter of its accuracy."""
