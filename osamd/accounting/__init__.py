"""The books of a learner: which labels it may ask for, and what the labels say of it.

`budget` steers the queries. `meter` keeps what is needed of the rounds; `accuracy`, `gain`, `target`, `health` and
`alarms` read it. All are plain functions of one vector, so that they are saved as they are and compiled.
"""
