"""What the arbiter goes by in a round, besides its own weights: how far it may rely on the source and on labels."""

from __future__ import annotations

from typing import NamedTuple

CREDIT = 8.0
"""How many times the weight of the source counts while samples look like those it was made from. Where nothing drifts,
20 % of wrong labels then cost no seed more than a point or two; a flip of all labels that the samples do not show costs
about two labels more to follow."""
UNFAMILIAR = 0.6
"""The shift of the samples, in deviations, at which half of that credit is gone, in logarithms. By chance the means of
some hundred rounds shift by 0.2 deviations in one of many features."""
UNSURE = 0.1
"""How far the confidence of a source network must fall, from that on its own samples, for half of the credit to be
gone, in logarithms. Networks are a little less sure of other samples of their own world: by 0.01 on digits and
faces."""
FEW = 60.0
"""Without a source, losses count for n / (n + FEW) after n labels. Over the tables that chose constants this gains 0.1
points at 5 % of the labels and 0.2 at 10 %; with 20 it gains nothing."""


TIES = 0.7
"""How much a label counts in the trust if the mixture was undecided: it tells little about who is right elsewhere. Most
labels are asked for there. If all labels counted fully, the worst of 30 seeds with 20 % of wrong labels would lose 1.3
points where nothing drifts, and not 0.5 (twelve settings, seeds 100 to 129); if these counted half, the paper's first
stream with 2 % of the labels would lose 0.04 points."""


class Grounds(NamedTuple):
    """The grounds of one round."""

    sourced: bool
    """Whether there is a source."""
    verified: float
    """The number of recent labels."""
    credit: float
    """How many times the weight of the source counts."""
    boldness: float
    """How much the losses of the experts count in the blend, from 0 to 1."""


def credit(shift: float) -> float:
    """How many times the weight of the source counts, if the samples are this many deviations from its own.

    >>> [round(credit(shift), 1) for shift in (0.0, 0.2, 0.6, 2.0)]
    [8.0, 7.8, 2.8, 1.0]
    """
    return float(CREDIT ** (1.0 / (1.0 + (shift / UNFAMILIAR) ** 4.0)))


def standing(fall: float) -> float:
    """How many times the weight of a source network counts, if its confidence has fallen by so much.

    >>> [round(standing(fall), 2) for fall in (0.0, 0.05, 0.1, 0.3)]
    [1.0, 0.88, 0.35, 0.13]
    """
    return float(CREDIT ** (1.0 / (1.0 + (max(fall, 0.0) / UNSURE) ** 4.0) - 1.0))


def evidence(margin: float) -> float:
    """How much a label counts in the trust, if the mixture that decided was so far ahead for its likeliest class.

    >>> [evidence(margin) for margin in (0.0, 0.5, 1.0)]
    [0.7, 0.85, 1.0]
    """
    return TIES + (1.0 - TIES) * margin


def boldness(sourced: bool, labels: float) -> float:
    """How much the losses of the experts count in the blend after this many labels."""
    return 1.0 if sourced else labels / (labels + FEW)
