"""The accounts of a learner: which labels it may ask for, and what the labels say about it.

`budget` states the rules, `book` holds their numbers, and `steering` spends the budget. `meter` records the rounds;
`accuracy`, `gain`, `target`, `health` and `alarms` read it. Book and meter are one vector each, saved as they are, with
plain functions that can be compiled.
"""
