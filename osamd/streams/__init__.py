"""Streams: synthetic drifts with their ground truth, the paper's real data sets, and arrays of one's own."""

from __future__ import annotations

from osamd.streams.arrays import Arrays
from osamd.streams.base import Drift, ExactStream, Stream
from osamd.streams.changes import Changed, Schedule, abrupt, changed, gradual, recurring, relabel, transform
from osamd.streams.clusters import overlapping_gaussians, tight_classes
from osamd.streams.hardships import (
    Hardship,
    IrrelevantFeatures,
    NoisyLabels,
    Outliers,
    RareClass,
    TrendingColumn,
    UnscaledFeatures,
)
from osamd.streams.priors import PriorShift
from osamd.streams.real import RealStream, corrupted_mnist, cover_type, portraits, rotating_mnist
from osamd.streams.reshuffled import Reshuffled, still_breast_cancer, still_digits, still_wine
from osamd.streams.rotating import Rotating, ball_noise, gaussian_noise, rotating_balls, rotating_gaussian
from osamd.streams.still import LogisticTable, MachineTable, NoisyTable, logistic_table
from osamd.streams.two_point import TwoPoint

__all__ = [
    "Arrays",
    "Changed",
    "Drift",
    "ExactStream",
    "Hardship",
    "IrrelevantFeatures",
    "LogisticTable",
    "MachineTable",
    "NoisyLabels",
    "NoisyTable",
    "Outliers",
    "PriorShift",
    "RareClass",
    "RealStream",
    "Reshuffled",
    "Rotating",
    "Schedule",
    "Stream",
    "TrendingColumn",
    "TwoPoint",
    "UnscaledFeatures",
    "abrupt",
    "ball_noise",
    "changed",
    "corrupted_mnist",
    "cover_type",
    "gaussian_noise",
    "gradual",
    "logistic_table",
    "overlapping_gaussians",
    "portraits",
    "recurring",
    "relabel",
    "rotating_balls",
    "rotating_gaussian",
    "rotating_mnist",
    "still_breast_cancer",
    "still_digits",
    "still_wine",
    "tight_classes",
    "transform",
]
