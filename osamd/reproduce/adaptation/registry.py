"""The methods that are compared with the preset, by name."""

from __future__ import annotations

from osamd.reproduce.adaptation.active import EATTA, HILTTA, SimATTA
from osamd.reproduce.adaptation.entropy_minimisation import SAR, Tent, Unchanged
from osamd.reproduce.adaptation.fine_tuning import EntropyReplay, RandomReplay, VariedReplay
from osamd.reproduce.adaptation.mean_teacher import CoTTA
from osamd.reproduce.adaptation.peer import Peer

PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (Unchanged, Tent, CoTTA, SAR, SimATTA, HILTTA, EATTA, RandomReplay, EntropyReplay, VariedReplay)
}
