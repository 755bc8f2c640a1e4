"""The preset for networks: a memory, steps in the network's own scale, and an arbiter; it needs no step size.

As in `osamd.preset`, a conservative student trains itself on pseudolabels, an aggressive teacher learns from the newest
labels alone, and an arbiter (`osamd.preset.arbiter`) mixes their probabilities. The mixture gives the pseudolabel,
decides, and says how unsure it is. With p_e the probabilities of student (e = 0) and teacher (1):

    p = sum_e a_e p_e,  a_e ~ exp(-L_e - HANDICAP [e > 0])          opinion: pseudolabel, decision, margin m
    ask with probability max(floor, sigma / (sigma + m^POWER))      active query, sigma steered to the budget
    L_e <- DISCOUNT L_e - log(DOUBT + (1 - DOUBT) p_e(y))           with a label, which enters the memory too
    g_0 = grad l(x, y), with a label, + mean of grad l over BATCH of the memory + SELF times that over SOME of the last
          RECENT samples, each with its label or the pseudolabel it got                                 at w_hat
    g_1 = grad l(x, y), with a label, + mean of grad l over BATCH + SOME of the NEWEST labels          at theta
    v_e <- KEEP v_e + (1 - KEEP) g_e^2,   w_e <- w_e - STEPS[e] |w| g_e / sqrt(v_e / (1 - KEEP^t))

l(x, y) = -log p(y). Gradients are divided by their own size, coordinate by coordinate, and |w| is the root mean square
of the parameters at the start (at least LEAST), so steps are in the network's own scale; t counts the steps of each.
Which samples are replayed follows from the number of the round, by the golden ratio: spread evenly, without random
draws.

The networks run in torch, on any device; the decisions are a few numbers per model, on the CPU (`decide`). A fleet of
such pairs plays in step, and `osamd.learner.network` holds a fleet of one pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from osamd.accounting.book import terms
from osamd.accounting.steering import enter
from osamd.compiled.lowering import jit, lower
from osamd.errors import InputError
from osamd.fleet.fleet import COLUMNS, Playing, example_of, net_of
from osamd.fleet.net import Net, stack
from osamd.numerics import Array
from osamd.paper.queries import query_probability
from osamd.paper.scores import UNLABELLED
from osamd.preset.arbiter import POWER, mix, weigh

MEMORY = 512
"""The number of labelled samples that are remembered; a new one replaces the oldest."""
BATCH = 16
"""The number of remembered samples that the student replays per round."""
RECENT = 256
"""The number of recent samples on whose pseudolabels the student trains itself."""
SOME = 8
"""The number of recent samples that the student replays per round."""
SELF = 0.5
"""The weight of all of these together, relative to a label."""
NEWEST = 16
"""The number of labels that the teacher learns from."""
STEPS = (0.005, 0.025)
"""The steps of student and teacher, relative to the size of the parameters."""
LEAST = 0.01
KEEP = 0.999
HANDICAP = 2.0
"""The lead over the student, in nats, that the teacher needs."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0

_REMEMBERED = 9  # marks a generator apart from those of streams

LABELLED, TARGET, PLACE, LAST, ROUND, TAUGHT, REPLAYS = range(7)
"""The first columns of the orders for a pair's second half: whether there is a label, the class, the sample's places in
the memory and among the recent samples, the number of steps of student and teacher (at least 1), and whether anything
is remembered. The places to replay follow: first the student's, then the teacher's."""


class PresetMember(NamedTuple):
    """One pair of a fleet: the module that both start from, its rows of samples and uniforms, and its first memory:
    samples and their classes, at most MEMORY."""

    module: nn.Module
    stream: int = 0
    seed: int = 0
    memory: tuple[Tensor, Tensor] | None = None


class PresetState(NamedTuple):
    """What the networks' halves change, on their device."""

    rows: Tensor
    """(2 x models x size): the students, then the teachers."""
    squares: Tensor
    """v, for the columns that learn."""
    samples: Tensor
    """(models x (MEMORY + RECENT) x shape): the memory, then the recent samples."""
    labels: Tensor


class PresetFleet(Playing):
    """Pairs of networks in step; each row of `books` is the book of one pair's budget (`osamd.accounting.budget`)."""

    def __init__(
        self,
        members: Sequence[PresetMember],
        sample: tuple[int, ...],
        books: Array,
        *,
        net: Net | None = None,
        probabilities: bool = False,
        example: Tensor | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not members or len(books) != len(members):
            raise InputError(
                f"`PresetFleet`: {len(members)} members and {len(books)} books; give each member one book."
            )
        self.members, self.books = list(members), books
        self.net = net or net_of(*example_of(members[0].module, sample), probabilities)
        self.device, self.dtype, self.sample = torch.device(device), dtype, sample
        count = len(members)
        rows = stack(self.net, [member.module for member in members], dtype).to(self.device)
        kind = dtype if example is None else example.dtype
        self.state = PresetState(
            torch.cat([rows, rows]),
            torch.zeros(2 * count, self.net.trained, dtype=dtype, device=self.device),
            torch.zeros(count, MEMORY + RECENT, *sample, dtype=kind, device=self.device),
            torch.zeros(count, MEMORY + RECENT, dtype=torch.long, device=self.device),
        )
        self.losses, self.counts = np.zeros((count, 2)), np.zeros((count, 3))
        self.stream = torch.tensor([member.stream for member in members], device=self.device)
        self._place = torch.arange(count)
        size = rows[:, : self.net.trained].square().mean(1, keepdim=True).sqrt().clamp(min=LEAST)
        self._rates = torch.cat([size * share for share in STEPS])
        self._each = torch.arange(count, device=self.device)
        self.orders = torch.zeros(count, REPLAYS + 1 + 2 * (BATCH + SOME), dtype=torch.long, device=self.device)
        tried = torch.zeros(1, *sample, dtype=dtype) if example is None else example
        with torch.no_grad():
            self.classes = self.net.many(self.state.rows[:1], tried.to(self.device)[None]).shape[2]
        self.shares = torch.zeros(2 * count, self.classes, dtype=torch.float64, device=self.device)
        for i, member in enumerate(members):
            if member.memory is not None:
                self.remember(i, *member.memory)

    def remember(self, member: int, x: Tensor, y: Tensor) -> None:
        """Start a member's memory with these samples and their classes, at most MEMORY of them."""
        fits = len(x) == len(y) <= MEMORY and x.shape[1:] == self.sample and bool(((y >= 0) & (y < self.classes)).all())
        if not fits:
            raise InputError(
                f"`PresetFleet.remember`: {len(x)} samples of shape {tuple(x.shape[1:])} with {len(y)} labels; give at"
                f" most {MEMORY} of shape {self.sample}, and as many labels from 0 to {self.classes - 1}."
            )
        self.state.samples[member, : len(y)] = x.to(self.state.samples)
        self.state.labels[member, : len(y)] = y.to(self.state.labels)
        self.counts[member, 0] = len(y)

    def record(self, rounds: int) -> Tensor:
        return torch.zeros(rounds, len(self), len(COLUMNS), dtype=self.dtype)

    def kept(self) -> dict[str, Tensor]:
        numbers = {"losses": self.losses, "counts": self.counts, "books": self.books}
        return super().kept() | {name: torch.from_numpy(array) for name, array in numbers.items()}

    def tensors(self, member: int, *, teacher: bool = False) -> dict[str, Tensor]:
        """A member's student (or teacher), as the `state_dict` of its module."""
        return self.net.tensors(self.state.rows[member + teacher * len(self)].detach().cpu())

    def see(self, x: Tensor) -> None:
        """The first half: compute `shares`, the probabilities of the students, then those of the teachers."""
        logits = self.net.many(self.state.rows, torch.cat([x, x])[:, None])[:, 0]
        self.shares.copy_(torch.softmax(logits.double(), 1))

    def descend(self, x: Tensor) -> None:
        """The second half, as the `orders` say: remember the sample if it has a label, and take a step."""
        rows, squares, samples, labels = self.state
        labelled, target, place, last, number, taught, replays = (self.orders[:, i] for i in range(REPLAYS + 1))
        replayed, each = self.orders[:, REPLAYS + 1 :], self._each[:, None]
        known = labelled > 0
        shown = known.view(-1, *(1 for _ in self.sample))
        samples[self._each, place] = torch.where(shown, x, samples[self._each, place])
        labels[self._each, place] = torch.where(known, target, labels[self._each, place])
        samples[self._each, last], labels[self._each, last] = x, target
        halves = replayed.unflatten(1, (2, -1)).transpose(0, 1)
        batch = torch.cat([torch.cat([x[:, None], samples[each, half]], 1) for half in halves])
        y = torch.cat([torch.cat([target[:, None], labels[each, half]], 1) for half in halves])
        label, memory = labelled[:, None].to(self.dtype), replays[:, None].to(self.dtype)
        student = [label, (memory / BATCH).expand(-1, BATCH), torch.full_like(label, SELF / SOME).expand(-1, SOME)]
        teacher = [label, (memory / (BATCH + SOME)).expand(-1, BATCH + SOME)]
        weights = torch.cat([torch.cat(student, 1), torch.cat(teacher, 1)])
        learns = rows[:, : self.net.trained].detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = self.net.many(torch.cat([learns, rows[:, self.net.trained :]], 1), batch)
            logs = torch.log_softmax(logits, 2).gather(2, y[:, :, None])[:, :, 0]
            loss = -(weights * logs).sum()
        (gradient,) = torch.autograd.grad(loss, learns)
        gradient = torch.where(torch.isfinite(gradient.square()), gradient, 0.0)
        squares.mul_(KEEP).addcmul_(gradient, gradient, value=1.0 - KEEP)
        grown = -torch.expm1(math.log(KEEP) * torch.cat([number, taught])[:, None].to(self.dtype))
        rows[:, : self.net.trained] -= self._rates * gradient / ((squares / grown).sqrt() + 1e-8)


def remembered(count: int, seed: int) -> list[int]:
    """The labelled samples, of `count`, that a memory starts with: at most MEMORY, drawn without replacement."""
    if count <= MEMORY:
        return list(range(count))
    return [int(i) for i in np.random.default_rng([_REMEMBERED, seed]).choice(count, MEMORY, replace=False)]


def opinion(losses: Any, shares: Any, mixture: Any, u: float, sigma: float, floor: float) -> Any:
    """The arbiter's label and margin, the probability of a query, and whether u falls below it."""
    label, margin = mix(losses, shares, HANDICAP, mixture)
    probability = query_probability(margin**POWER, sigma, floor)
    return label, margin, probability, u < probability


def order(losses: Any, counts: Any, shares: Any, pseudolabel: int, y: int, orders: Any) -> None:
    """Write the orders for the second half, with the label y or UNLABELLED, and update losses and counts.

    `counts` holds the labels, the student's steps, and the teacher's steps, which begin once something is remembered.
    """
    labelled = y != UNLABELLED
    orders[LABELLED], orders[TARGET] = labelled, y if labelled else pseudolabel
    orders[PLACE] = int(counts[0]) % MEMORY
    orders[LAST] = MEMORY + int(counts[1]) % RECENT
    if labelled:
        weigh(losses, shares, y)
        counts[0] += 1.0
    counts[1] += 1.0
    held, recent = min(counts[0], 1.0 * MEMORY), min(counts[1], 1.0 * RECENT)
    counts[2] += held > 0.0
    orders[ROUND], orders[TAUGHT], orders[REPLAYS] = int(counts[1]), max(1, int(counts[2])), held > 0.0
    newest = min(held, 1.0 * NEWEST)
    for j in range(BATCH):
        orders[REPLAYS + 1 + j] = int(golden(counts[1] * BATCH + j) * held)
    for j in range(SOME):
        orders[REPLAYS + 1 + BATCH + j] = MEMORY + int(golden(counts[1] * SOME + j) * recent)
    for j in range(BATCH + SOME):
        age = 1.0 + int(golden(counts[1] * (BATCH + SOME) + j) * newest)
        orders[REPLAYS + 1 + BATCH + SOME + j] = int(counts[0] - age) % MEMORY if held > 0.0 else 0


def golden(number: float) -> float:
    """A number of the golden-ratio sequence, which fills [0, 1) evenly at any length."""
    turn = number * GOLDEN
    return turn - math.floor(turn)


def decide(shares: Any, u: Any, y: Any, losses: Any, counts: Any, books: Any, orders: Any, record: Any) -> None:
    """One round of every pair, between the two halves of its networks: opinion, query, record and orders."""
    models, classes = u.shape[0], shares.shape[1]
    own, mixture = np.empty(2 * classes), np.empty(classes)
    for i in range(models):
        for c in range(classes):
            own[c], own[classes + c] = shares[i, c], shares[models + i, c]
        sigma, floor, _ = terms(books[i])
        label, margin, probability, query = opinion(losses[i], own, mixture, u[i], sigma, floor)
        enter(books[i], margin**POWER, probability, query)
        record[i, 0], record[i, 1], record[i, 2] = label, label, margin
        record[i, 3], record[i, 4], record[i, 5] = probability, query, -math.log(max(mixture[y[i]], 1e-300))
        order(losses[i], counts[i], own, label, y[i] if query else UNLABELLED, orders[i])


@lru_cache
def compiled() -> Any:
    """`decide`, compiled."""
    for helper in (terms, opinion, enter, order):
        lower(helper)
    return jit(decide)
