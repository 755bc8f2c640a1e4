"""The kernel of dense pairs with several lanes, as on a GPU: threads of Python stand in for the GPU's."""

import threading
from itertools import product

import numpy as np
import torch
from fleet_cases import dense
from test_preset_networks import books

from osamd.fleet.engines import per_member
from osamd.fleet.fleet import Samples
from osamd.fleet.kernels import pair_layers, pair_memory, pair_rounds, pairs
from osamd.fleet.preset_fleet import PresetFleet, PresetMember

ROUNDS = 12


def pair_and_samples():
    memory = (torch.randn(6, 5, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3)
    fleet = PresetFleet([PresetMember(dense(0), memory=memory)], (5,), books(1), places=7)
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(1, ROUNDS, 5, generator=draw), torch.randint(0, 3, (1, ROUNDS), generator=draw)
    return fleet, Samples(x, y, torch.rand(1, ROUNDS, generator=draw, dtype=torch.float64))


def in_lanes(lanes, ranks, monkeypatch, fleet, seen, record):
    """Play all rounds in threads, one per lane and rank and one that decides; they wait where the kernel says so."""
    here = threading.local()
    workers, everyone = (threading.Barrier(lanes * ranks + more, timeout=60.0) for more in (0, 1))
    roles = {
        "lane": lambda: here.lane,
        "rank": lambda: here.rank,
        "works": lambda: here.rank < ranks,
        "decides": lambda: here.rank == ranks,
        "sync": workers.wait,
        "meet": everyone.wait,
    }
    for module, (name, role) in product((pair_layers, pair_memory, pair_rounds), roles.items()):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, role)
    tensors = [tensor.numpy() for tensor in pairs.tensors_of(fleet, *per_member(fleet, seen), record)]
    widths, (numbers, vector) = np.array(fleet.net.widths), (np.zeros(n) for n in pairs.lengths_for(fleet))
    numbers, _ = pairs.numbers_in(numbers, *pairs.numbers_of(fleet))
    failed = []

    def thread(lane, rank):
        here.lane, here.rank = lane, rank
        try:
            pairs.play_pair(0, 0, ROUNDS, seen.x[0].numpy(), *tensors, widths, numbers, vector, lanes, ranks)
        except BaseException as error:  # the others would wait for this thread
            failed.append(error)
            workers.abort()
            everyone.abort()

    places = [(i, j) for i in range(lanes) for j in range(ranks)]
    threads = [threading.Thread(target=thread, args=place) for place in [*places, (0, ranks)]]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed, failed


def test_several_lanes_play_as_one_does(monkeypatch):
    ours, seen = pair_and_samples()
    record = ours.record(ROUNDS)
    pairs.by_lane(ours, seen, *per_member(ours, seen), record)(0, ROUNDS)
    assert record[:, 0, 4].sum() > 2  # labels were asked for
    for lanes, ranks in ((1, 1), (3, 2)):
        theirs, _ = pair_and_samples()
        told = theirs.record(ROUNDS)
        in_lanes(lanes, ranks, monkeypatch, theirs, seen, told)
        torch.testing.assert_close(told, record, rtol=0, atol=1e-5)
        torch.testing.assert_close(theirs.networks, ours.networks, rtol=0, atol=1e-5)
        assert torch.equal(theirs.state.labels, ours.state.labels)
