"""Keep a fault detector right as its sensor ages: one label in twenty, each of them late, some never.

python examples/keep_a_budget.py
"""

import heapq

import numpy as np

from osamd import OSAMD

rng = np.random.default_rng(0)


def parts(age):
    """Temperature and vibration of one part a round; the readings creep as the sensor ages from 0 to 1."""
    faulty = rng.random(len(age)) < 0.4
    x = np.column_stack([20.0 + 6.0 * faulty + 18.0 * age, 1.0 + 2.0 * faulty - 1.0 * age])
    return x + rng.normal(size=x.shape) * [1.5, 0.5], np.where(faulty, "faulty", "good").tolist()


learner = OSAMD.from_source(*parts(np.zeros(500)), budget=0.05, expire_after=400)
left_alone = learner.copy()

x, y = parts(np.linspace(0.0, 1.0, 8000))
right = right_alone = 0
under_way = []  # labels: the round in which one comes, and the decision it is for
for t, (sample, label) in enumerate(zip(x, y, strict=True)):
    decision = learner.ask(sample)
    right, right_alone = right + (decision.label == label), right_alone + (left_alone.predict(sample) == label)
    if not decision.query:
        learner.tell(decision)  # nobody will label it; it teaches by its pseudolabel
    elif rng.random() < 0.9:  # one query in ten is never answered, and expires
        heapq.heappush(under_way, (t + rng.integers(1, 300), decision.id))
    while under_way and under_way[0][0] <= t:
        _, number = heapq.heappop(under_way)
        learner.tell(number, y[number])
found = learner.accuracy()
print(f"left alone: {right_alone / len(y):.1%} right; kept: {right / len(y):.1%} right")
print(f"its own estimate: {found.value:.1%} ({found.low:.1%} to {found.high:.1%}) from {found.labels} labels")
