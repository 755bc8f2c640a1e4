"""Hard streams: does the default learner ever leave people worse off, and how accurate is it?

`osamd robustness` runs the groups of `osamd.reproduce.robustness.groups`: drifting streams, hard tables, streams
without drift beside the unchanged source model, and drifting streams whose labels come late.
"""
