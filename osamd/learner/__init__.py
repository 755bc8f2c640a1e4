"""The learner: `ask` for a decision and `tell` it the label, under a budget, with reports on accuracy and health.

`linear` and `network` hold the learners that people import. `ask_tell` is what they share; `reports` and `persistence`
are its parts for reporting and saving. `recipes` say what a learner is made from, and `cores` play the rounds. The
files are written by `saving`, checked by `resuming`, and translated from earlier layouts by `former`.
"""
