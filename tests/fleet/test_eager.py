"""The baseline of the fleets' benchmark does the same work."""

import pytest
import torch
from fleet_cases import SETTINGS, SHAPES, convolutional, dense, members, played, samples

from benchmarks.eager import Eager


@pytest.mark.parametrize("kind", ["dense", "softmax", "convolutional"])
def test_the_plain_eager_loop_decides_as_the_fleet(kind):
    make = {"dense": dense, "convolutional": convolutional}.get(kind, lambda seed: dense(seed, softmax=True))
    shape = SHAPES.get(kind, (5,))
    seen = samples(shape, 25)
    some = members(lambda seed: make(seed).double(), SETTINGS)
    fleet, record = played(some, shape, seen, probabilities=kind == "softmax")
    for i, member in enumerate(some):
        loop = Eager(member.module, fleet.numbers[i], kind == "softmax", torch.device("cpu"))
        mine = [loop.step(x, int(y), float(u)) for x, y, u in zip(seen.x[0], seen.y[0], seen.u[0], strict=True)]
        assert mine == fleet.ledger(i, record, seen.y).decision.tolist()
        if member.method != "paa":
            for name, tensor in loop.student.state_dict().items():
                if tensor.is_floating_point():
                    torch.testing.assert_close(tensor, fleet.tensors(i)[name], rtol=0, atol=1e-10)
