"""osamd: keep a classifier right on a drifting stream while asking for very few labels.

Online Self-Adaptive Mirror Descent, from the paper "Online Continual Adaptation with Active Self-Training". Start with
`osamd.methods` (what to run), `osamd.streams` (what to run it on) and `osamd.play` (running it).
"""

__version__ = "0.1.0"
