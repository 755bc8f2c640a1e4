"""Play one method on a stream, many models in lockstep: on a GPU each batch is the replay of one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from osamd.errors import InputError
from osamd.fleet.devices import threads_for
from osamd.fleet.engines import captured
from osamd.reproduce.adaptation.peer import Peer


class Shares(NamedTuple):
    """What the models of one run gave, in their order: fractions of the rounds."""

    accuracy: Sequence[float]
    labels: Sequence[float]


def play(
    peer: Peer, x: Tensor, y: Tensor, stream: Sequence[int], progress: Callable[[int], None] | None = None
) -> Shares:
    """Play streams x (streams x rounds x shape) with classes y in whole batches; model i sees `stream[i]`.

    Every decision is made before a label of its batch is used.
    """
    batch, rounds = peer.setting.batch, y.shape[1]
    if rounds % batch:
        raise InputError(f"`play(...)`: {rounds} rounds are not whole batches of {batch}; give a multiple of {batch}.")
    device = peer.rows.device
    seen = torch.tensor(list(stream), device=device)[:, None]
    within = torch.arange(batch, device=device)
    t = torch.zeros(1, dtype=torch.long, device=device)
    right, asked = (torch.zeros(len(stream), dtype=torch.long, device=device) for _ in range(2))

    def one() -> None:
        places = t * batch + within
        truth = y[seen, places]
        played = peer.play(x[seen, places], truth, t)
        right.add_((played.decision == truth).sum(1))
        asked.add_(played.asked.sum(1))
        t.add_(1)

    work: Callable[[], None] = one
    if device.type == "cuda":
        work = captured(device, [*peer.changing, right, asked, t], one)
    with torch.no_grad(), threads_for(peer.rows.numel()):
        for number in range(rounds // batch):
            work()
            if progress is not None:
                progress((number + 1) * batch)
    return Shares((right / rounds).tolist(), (asked / rounds).tolist())
