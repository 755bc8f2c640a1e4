"""Adapt a small pretrained network to a world that turns, asking for few labels.

python examples/adapt_network.py        (needs the extra deep: pip install 'osamd[deep]')
"""

import torch
from torch import nn

from osamd import NetworkOSAMD
from osamd.streams import rotating_gaussian

stream = rotating_gaussian(rounds=2000)  # two classes whose centres turn by 180 degrees

torch.manual_seed(0)  # a network trained offline, where the stream begins
module = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
known, labels = (torch.from_numpy(part) for part in stream.source(500, seed=0))
known = known.float() / 10.0
optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
for _ in range(200):
    optimiser.zero_grad()
    nn.functional.cross_entropy(module(known), labels).backward()
    optimiser.step()

# The stream: the learner decides at once, and learns with or without a label.
x, y = (torch.from_numpy(part) for part in stream.sample(seed=0))
x = x.float() / 10.0
left_alone = (module(x).argmax(1) == y).float().mean()
learner = NetworkOSAMD(module, budget=0.05, source=(known, labels))
right = asked = 0
for sample, label in zip(x, y.tolist(), strict=True):
    decision = learner.ask(sample)
    right += decision.label == label
    asked += decision.query
    learner.tell(decision, label if decision.query else None)

module.load_state_dict(learner.state_dict())  # the adapted network
print(
    f"left alone: {left_alone:.1%} right; adapted: {right / len(y):.1%} right with {asked / len(y):.1%} of the labels"
)
