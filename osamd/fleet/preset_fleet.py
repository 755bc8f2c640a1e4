"""The preset for networks: a memory, steps in the network's own scale, and an arbiter; it needs no step size.

As in `osamd.preset`, a conservative student trains itself on pseudolabels, an aggressive teacher learns from the newest
labels alone, the network as it was given (the source) never changes, and the arbiter (`osamd.preset.arbiter`) mixes
their probabilities: the blend of student and teacher gives the pseudolabel, trust in it is earned by labels, and the
guard decides. The student speaks as the average of what it was in the last rounds, which varies less than its steps
do. With p_e the probabilities of that average (e = 0) and of the teacher (1):

    blend = sum_e a_e p_e;  trusted = source against blend;  p = guard over trusted, source, student and teacher
    ask with probability max(floor, sigma / (sigma + m^POWER))      m: the margin of p and the blend, half and half
    with a label: the arbiter, and the sample enters the memory
    g_0 = grad l(x, y), with a label, + mean of grad l over BATCH of the memory + SELF times that over SOME of the last
          RECENT samples, each with its label or the pseudolabel it got                                 at w_hat
    g_1 = grad l(x, y), with a label, + mean of grad l over FEW of the NEWEST labels                   at theta
    v_e <- KEEP v_e + (1 - KEEP) g_e^2,   w_e <- w_e - STEPS[e] |w| g_e / sqrt(v_e / (1 - KEEP^t))
    average <- average + NEWS (w_0 - average)                                   (`osamd.fleet.kernels.stepping`)

l(x, y) = -log p(y). Gradients are divided by their own size, coordinate by coordinate, and |w| is the root mean square
of the parameters at the start (at least LEAST), so steps are in the network's own scale; t counts the steps of each.

A network that trains itself tends to see fewer and fewer samples of some classes, because its pseudolabels repeat its
errors. So in networks with convolutions, whose memory began with samples of the source, self-training is *balanced*:
its weight is BALANCED in place of SELF, and a recent sample of class c counts r_c times, where the source's share of c
is r_c times that among the recent pseudolabels (`osamd.fleet.balancing`).

The weight of the source in the trusted mixture falls, down to an eighth, where it is less sure than of its own samples
(`osamd.preset.grounds.standing`). Samples far larger than usual are decided on, but not learned from. Images that are
replayed are varied each time (`osamd.fleet.augmentation`). In a convolutional network with BatchNorm, student and
teacher normalise by the sample's own statistics (`osamd.fleet.conv.by_sample`); the source stays as it was given.
`osamd.fleet.pair` holds the decisions and says which samples are replayed.

The networks run in torch, on any device. A fleet of such pairs plays in step, and `osamd.learner.network` holds a fleet
of one pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from osamd.errors import InputError
from osamd.fleet import augmentation, balancing, pair
from osamd.fleet.conv import by_sample
from osamd.fleet.fleet import Playing, example_of, net_of
from osamd.fleet.kernels.stepping import grown_after, step_all
from osamd.fleet.net import Net, stack
from osamd.fleet.pair import BATCH, FEW, RECENT, SELF, SOME, places_for
from osamd.numerics import Array

STEPS = (0.005, 0.025)
"""The steps of student and teacher, relative to the size of the parameters."""
LEAST = 0.01
OWN, AT_ONCE = 128, 16
"""So many remembered samples of the source show how sure it is of its own, in batches of that many."""

_REMEMBERED = 9  # marks a generator apart from those of streams


class PresetMember(NamedTuple):
    """One pair of a fleet: the module that both start from, its rows of samples and uniforms, and its first memory:
    samples and their classes, at most as many as it has places."""

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
    """(models x (places + RECENT) x shape): the memory, then the recent samples."""
    labels: Tensor
    averages: Tensor
    """(models x size): the students' averages, which speak for them."""
    expected: Tensor
    """(models x classes): the shares of the classes among the source's samples, where self-training is balanced: where
    they are known, and what learns has convolutions; 0 elsewhere."""


class Lesson(NamedTuple):
    """What `Net.loss_gradient` takes: the students or the teachers, and samples, labels and weights for each."""

    rows: Tensor
    x: Tensor
    y: Tensor
    weights: Tensor


class PresetNumbers(NamedTuple):
    """What is decided with, per pair and in float64: see `osamd.fleet.pair`."""

    arbiters: Tensor
    counts: Tensor
    books: Tensor


class PresetFleet(Playing):
    """Pairs of networks in step; each row of `books` is the book of one pair's budget (`osamd.accounting.budget`).

    `batch_statistics` says what BatchNorm normalises by in all networks, "training" or "sample"; by default it is as
    `by_sample` says. A memory has as many `places` as suit the size of a sample (`osamd.fleet.pair.places_for`), or as
    many as are given. `augment` says whether replayed samples are varied; by default they are if they are images and
    the networks have convolutions (`osamd.fleet.augmentation.chosen`).
    """

    def __init__(
        self,
        members: Sequence[PresetMember],
        sample: tuple[int, ...],
        books: Array,
        *,
        net: Net | None = None,
        batch_statistics: str | None = None,
        probabilities: bool = False,
        example: Tensor | None = None,
        places: int | None = None,
        augment: bool | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not members or len(books) != len(members):
            raise InputError(
                f"`PresetFleet`: {len(members)} members and {len(books)} books; give each member one book."
            )
        self.members = list(members)
        self.source_net = net or net_of(
            *example_of(members[0].module, sample), probabilities, batch_statistics or "training"
        )
        """How the sources are computed; `net` is how students and teachers are."""
        self.net = by_sample(self.source_net, sample) if batch_statistics is None else self.source_net
        self.device, self.dtype, self.sample = torch.device(device), dtype, sample
        count = len(members)
        rows = stack(self.net, [member.module for member in members], dtype).to(self.device)
        kind = dtype if example is None else example.dtype
        self.places = places or places_for(sample)
        """How many labelled samples every pair remembers."""
        self.networks = torch.cat([rows, rows, rows, rows])
        """The students, the teachers, the sources, then the students' averages."""
        tried = torch.zeros(1, *sample, dtype=dtype) if example is None else example
        with torch.no_grad():
            self.classes = self.net.many(self.networks[:1], tried.to(self.device)[None]).shape[2]
        self.state = PresetState(
            self.networks[: 2 * count],
            torch.zeros(2 * count, self.net.trained, dtype=dtype, device=self.device),
            torch.zeros(count, self.places + RECENT, *sample, dtype=kind, device=self.device),
            torch.zeros(count, self.places + RECENT, dtype=torch.long, device=self.device),
            self.networks[3 * count :],
            torch.zeros(count, self.classes, dtype=dtype, device=self.device),
        )
        self.balances = balancing.suits(self.net.module)
        """Whether self-training is balanced where the source's shares of the classes are known."""
        self.augmented = augmentation.chosen(augment, members[0].module, self.state.samples)
        """What varies replayed samples, if anything does."""
        self.numbers = PresetNumbers(
            torch.from_numpy(pair.open_arbiters(count)),
            torch.from_numpy(pair.open_counts(count, self.places)),
            torch.from_numpy(books),
        )
        self.stream = torch.tensor([member.stream for member in members], device=self.device)
        self._place = torch.arange(count)
        size = rows[:, : self.net.trained].square().mean(1, keepdim=True).sqrt().clamp(min=LEAST)
        self.rates = torch.cat([size * share for share in STEPS])
        """The steps of students and teachers."""
        self._each = torch.arange(count, device=self.device)
        self.orders = torch.zeros(count, pair.ORDERS, dtype=torch.long, device=self.device)
        self.seen = torch.ones(count * (3 * self.classes + 1), dtype=torch.float64, device=self.device)
        """What `see` computes, in one piece of memory: `shares`, then `sizes`."""
        self.shares, self.sizes = self.parts_of(self.seen)
        for i, member in enumerate(members):
            if member.memory is not None:
                self.remember(i, *member.memory)

    def remember(self, member: int, x: Tensor, y: Tensor) -> None:
        """Start a member's memory with these samples and their classes, at most as many as it has places."""
        fits = len(x) == len(y) <= self.places and x.shape[1:] == self.sample
        fits = fits and bool(((y >= 0) & (y < self.classes)).all())
        if not fits:
            raise InputError(
                f"`PresetFleet.remember`: {len(x)} samples of shape {tuple(x.shape[1:])} with {len(y)} labels; give at"
                f" most {self.places} of shape {self.sample}, and as many labels from 0 to {self.classes - 1}."
            )
        self.state.samples[member, : len(y)] = x.to(self.state.samples)
        self.state.labels[member, : len(y)] = y.to(self.state.labels)
        self.numbers.counts[member, pair.LABELS] = len(y)
        if not len(y):
            return
        if self.balances:
            shares = balancing.shares(self.state.labels[member, : len(y)].cpu(), self.classes)
            self.state.expected[member] = shares.to(self.state.expected)
        sure = self._sure(member, len(y))
        self.numbers.counts[member, pair.USUAL] = float(sizes_of(x).median())
        self.numbers.counts[member, pair.SURE] = self.numbers.counts[member, pair.KNOWN] = sure

    def _sure(self, member: int, held: int) -> float:
        """How sure a member's source is of the samples that it remembers, in the mean; 0 if it scores none of them."""
        row, some = self.networks[2 * len(self) + member][None], torch.linspace(0, held - 1, min(held, OWN)).long()
        batches = self.state.samples[member, some.to(self.device)].split(AT_ONCE)
        with torch.no_grad():
            logits = torch.cat([self.source_net.many(row, batch[None])[0] for batch in batches])
        most = torch.softmax(logits.double(), 1).amax(1)
        fine = most[torch.isfinite(most)]
        return float(fine.mean()) if len(fine) else 0.0

    def work(self) -> Tensor:
        """Room for the decisions of one round, next to the numbers."""
        return torch.zeros(len(self), pair.WORK * self.classes, dtype=torch.float64, device=self.numbers.counts.device)

    def kept(self) -> dict[str, Tensor]:
        return super().kept() | self.numbers._asdict()

    def tensors(self, member: int, *, teacher: bool = False) -> dict[str, Tensor]:
        """A member's student, averaged, or its teacher, as the `state_dict` of its module."""
        row = self.state.rows[len(self) + member] if teacher else self.state.averages[member]
        return self.net.tensors(row.detach().cpu())

    def parts_of(self, seen: Any) -> tuple[Any, Any]:
        """The probabilities of students, teachers and sources, and the root mean square of every sample, which is 1
        where that is made of whole numbers."""
        return seen[: -len(self)].reshape(3 * len(self), self.classes), seen[-len(self) :]

    def see(self, x: Tensor) -> None:
        """The first half: compute `shares`, the probabilities of students, teachers and sources, and `sizes`."""
        count = len(self)
        said = self.networks[count:]  # teachers, sources, averages
        if self.net is self.source_net:
            logits = self.net.many(said, torch.cat([x, x, x])[:, None])
        else:
            teachers, averages = (self.net.many(rows, x[:, None]) for rows in (said[:count], said[2 * count :]))
            logits = torch.cat([teachers, self.source_net.many(said[count : 2 * count], x[:, None]), averages])
        self.shares.copy_(torch.softmax(logits[:, 0].double(), 1).roll(count, 0))
        self.sizes.copy_(sizes_of(x))

    def descend(self, x: Tensor) -> None:
        """The second half, as the `orders` say: remember the sample if it has a label, and take a step."""
        student, teacher = self.lessons(x)
        self.move(self.net.loss_gradient(*student), self.net.loss_gradient(*teacher))

    def lessons(self, x: Tensor) -> list[Lesson]:
        """Remember the sample if it has a label, and say what students and teachers learn from."""
        rows, _, samples, labels, _, expected = self.state
        fits, labelled, target, place, last, number, _, replays = (self.orders[:, i] for i in range(pair.HEAD))
        replayed, each = self.orders[:, pair.HEAD :], self._each[:, None]
        over = (-1, *(1 for _ in self.sample))
        known = labelled > 0
        x = torch.where((fits > 0).view(over), x, 0)
        samples[self._each, place] = torch.where(known.view(over), x, samples[self._each, place])
        labels[self._each, place] = torch.where(known, target, labels[self._each, place])
        samples[self._each, last], labels[self._each, last] = x, target
        again, classes = samples[each, replayed], labels[each, replayed]
        if self.augmented is not None:
            again = self.augmented(again, number)
        label, memory = labelled[:, None].to(self.dtype), replays[:, None].to(self.dtype)
        told, own = classes >= 0, classes.clamp(min=0)
        if self.balances:
            balance = balancing.weights(labels[:, self.places :], expected, number)
            itself = balance.gather(1, own[:, BATCH : BATCH + SOME]) / SOME
        else:
            itself = label.new_full((len(self), SOME), SELF / SOME)
        weights = torch.cat([(memory / BATCH).expand(-1, BATCH), itself, (memory / FEW).expand(-1, FEW)], 1) * told
        parts = (part.split([BATCH + SOME, FEW], 1) for part in (again, own, weights))
        present = (x[:, None], target[:, None].clamp(min=0), label)
        return [
            Lesson(row, *(torch.cat(both, 1) for both in zip(present, lesson, strict=True)))
            for row, *lesson in zip(rows.chunk(2), *parts, strict=True)
        ]

    def move(self, students: Tensor, teachers: Tensor) -> None:
        """Step along the gradients of students and teachers."""
        rows, squares, averages = self.state.rows, self.state.squares, self.state.averages
        grown = grown_after(torch.cat([self.orders[:, pair.ROUND], self.orders[:, pair.LESSON]]), self.dtype)
        step_all(rows, squares, averages, torch.cat([students, teachers]), self.rates, grown)


def sizes_of(x: Tensor) -> Tensor:
    """The root mean square of every sample; 1 for whole numbers, whose size says nothing."""
    if not x.is_floating_point():
        return torch.ones(len(x), dtype=torch.float64, device=x.device)
    return x.double().flatten(1).square().mean(1).sqrt()


def remembered(count: int, places: int, seed: int) -> list[int]:
    """The labelled samples, of `count`, that a memory starts with: as many as it has places, without replacement."""
    if count <= places:
        return list(range(count))
    return [int(i) for i in np.random.default_rng([_REMEMBERED, seed]).choice(count, places, replace=False)]
