"""Hard streams: does the learner that people get by default ever leave them worse off, and is it right all the same?

`osamd robustness` runs the groups of `osamd.reproduce.robustness.groups`: drifting streams, hard tables, still streams
beside the source model left alone, and drifting streams whose labels come late.
"""
