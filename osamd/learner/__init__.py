"""The object to hold: `ask` for a decision and `tell` the label, under a budget, with an accuracy and a health report.

`linear` and `network` are the learners that people import, `ask_tell` is what they share, and `recipes` say what a
learner is made from. `cores` play the rounds; `saving` and `former` write and read files.
"""
