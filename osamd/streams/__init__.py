"""Streams: synthetic drifts with their ground truth, and a user's own arrays."""

from __future__ import annotations

from osamd.streams.arrays import Arrays
from osamd.streams.base import Drift, ExactStream, Stream
from osamd.streams.changes import Changed, Schedule, abrupt, changed, gradual, recurring, relabel, transform
from osamd.streams.priors import PriorShift
from osamd.streams.rotating import Rotating, ball_noise, gaussian_noise, rotating_balls, rotating_gaussian
from osamd.streams.two_point import TwoPoint

__all__ = [
    "Arrays",
    "Changed",
    "Drift",
    "ExactStream",
    "PriorShift",
    "Rotating",
    "Schedule",
    "Stream",
    "TwoPoint",
    "abrupt",
    "ball_noise",
    "changed",
    "gaussian_noise",
    "gradual",
    "recurring",
    "relabel",
    "rotating_balls",
    "rotating_gaussian",
    "transform",
]
