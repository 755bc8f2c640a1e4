"""Streams: synthetic drifts with their ground truth, the paper's real data sets, and a user's own arrays."""

from __future__ import annotations

from osamd.streams.arrays import Arrays
from osamd.streams.base import Drift, ExactStream, Stream
from osamd.streams.changes import Changed, Schedule, abrupt, changed, gradual, recurring, relabel, transform
from osamd.streams.hardships import Hardship, IrrelevantFeatures, NoisyLabels, RareClass, UnscaledFeatures
from osamd.streams.priors import PriorShift
from osamd.streams.real import RealStream, cover_type, portraits, rotating_mnist
from osamd.streams.rotating import Rotating, ball_noise, gaussian_noise, rotating_balls, rotating_gaussian
from osamd.streams.two_point import TwoPoint

__all__ = [
    "Arrays",
    "Changed",
    "Drift",
    "ExactStream",
    "Hardship",
    "IrrelevantFeatures",
    "NoisyLabels",
    "PriorShift",
    "RareClass",
    "RealStream",
    "Rotating",
    "Schedule",
    "Stream",
    "TwoPoint",
    "UnscaledFeatures",
    "abrupt",
    "ball_noise",
    "changed",
    "cover_type",
    "gaussian_noise",
    "gradual",
    "portraits",
    "recurring",
    "relabel",
    "rotating_balls",
    "rotating_gaussian",
    "rotating_mnist",
    "transform",
]
