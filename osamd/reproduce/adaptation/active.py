"""Methods of active test-time adaptation: SimATTA, HILTTA and EATTA."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from osamd.reproduce.adaptation.peer import (
    Adam,
    Momentum,
    Peer,
    Played,
    Setting,
    cross_entropy,
    entropy,
    mean_over,
)
from osamd.reproduce.adaptation.spending import Memory, Meter

FAR = 1e30
"""A squared distance beyond all others."""


class SimATTA(Peer):
    """SimATTA (Gui et al., ICLR 2024): labels for clusters of unsure samples, and sure ones in place of the source.

        low  <- low  + {(x, argmax p_source(x)): H(p_source(x)) < LOW}        sure, with the source network's own labels
        high <- high + labels of {x: H(p_w(x)) > HIGH} nearest to the centroids of new clusters of their features
        w    <- w - rate Momentum(grad (1 - a) mean_low -log p_w(y) + a mean_high -log p_w(y)),
                a = |high| / (|low| + |high|)

    New clusters are found beside those of the samples labelled before, by `nearest_to_new_clusters`. BatchNorm keeps
    the statistics of its training, as in the paper; the tuning tries those of the batch, too. Ours to decide: the paper
    takes up to 30 steps per batch of 100 samples, and here a batch of 64 takes 16 and a batch of one takes one, on 16
    samples of each kind; both memories are as large as the preset's.
    """

    name, title, paper = "simatta", "SimATTA", "Gui et al., ICLR 2024"
    rate, labelled, batch_statistics = 1e-3, True, False
    low, high, drawn, most_steps = 1e-4, 1e-2, 16, 16

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.optimiser = Momentum(self.rows, self.network.trained)
        self.meter = Meter(setting.budget, setting.batch)
        self.steps = min(self.most_steps, max(1, setting.batch // 4))
        example = setting.source[0][0, 0]
        with torch.no_grad():
            features = self.network.score(setting.rows[:1], example[None, None]).features[0, 0]
        self.sure, self.told = (Memory(len(self.rows), example) for _ in range(2))
        self.anchors = Memory(len(self.rows), features, self.told.size)
        for part in (self.optimiser, self.meter, self.sure, self.told, self.anchors):
            self.changing += part.changing

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        logits, features = self.network.score(self.rows, x, self.own)
        anchors, held = self.anchors.samples[:, :-1], self.anchors.held()
        unsure = entropy(logits) > self.high
        score = nearest_to_new_clusters(features, unsure, anchors, held, self.meter.in_hand(), self.meter.most)
        asked = self.meter.choose(score)
        self.told.add(x, y, asked)
        self.anchors.add(features, y, asked)
        source = self.network.logits(self.setting.rows, x, self.own)
        self.sure.add(x, source.argmax(2), entropy(source) < self.low)
        for step in range(self.steps):
            self._learn(self.uniform(t, step, 2 * self.drawn))
        return Played(logits.argmax(2), asked)

    def _learn(self, u: Tensor) -> None:
        low, high = self.sure.held(), self.told.held()
        share = (high / (low + high).clamp(min=1))[:, None]
        halves = [memory.draw(half) for memory, half in zip((self.sure, self.told), u.chunk(2, 1), strict=True)]
        x, y = (torch.cat([half[i] for half in halves], 1) for i in range(2))
        weight = torch.cat([1.0 - share, share], 1).repeat_interleave(self.drawn, 1) / self.drawn
        gradient = self.slope(lambda rows: (weight * cross_entropy(self.network.logits(rows, x, self.own), y)).sum(1))
        taken = (low + high > 0).to(self.rates)[:, None]
        self.descend(self.optimiser.direction(gradient, taken), self.columns)


class HILTTA(Peer):
    """HILTTA (Li et al., TMLR): labels choose among learning rates first, and then they teach; here upon Tent.

        labels: K-centre greedy from the origin over features times (1 - margin)            "K-margin"
        w_r   = w - r Adam(grad mean_i H(p_w(x_i))) for each candidate rate r               Tent on the norms
        v_r   = [mean over the labels of -log p_{w_r}(y)] + [mean over the others of |p_{w_r} - p_source|^2],
                each [.] scaled to 0 ... 1 over the candidates, and v averaged over batches
        w    <- w_r with the least v_r, then w <- w - rate Adam(grad mean over the labels of -log p_w(y))

    Ours to decide: five candidates, 0.1 to 10 times the learning rate; v is averaged with weight 0.1 for a batch with
    labels, and a batch without labels uses the average as it stands. The last step changes all parameters.
    """

    name, title, paper = "hiltta", "HILTTA", "Li et al., TMLR"
    rate, labelled, norms_only = 1e-3, True, True
    candidates, renewal = (0.1, 0.3, 1.0, 3.0, 10.0), 0.1

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.tent, self.taught = (Adam(self.rows, self.network.trained) for _ in range(2))
        self.meter = Meter(setting.budget, setting.batch)
        self.value = torch.zeros(len(self.rows), len(self.candidates)).to(self.rows)
        self.factors = torch.tensor(self.candidates).to(self.rows)
        self.changing += [*self.tent.changing, *self.taught.changing, *self.meter.changing, self.value]

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        logits, features = self.network.score(self.rows, x, self.own)
        asked = self.meter.choose(k_margin(logits, features, self.meter.most))
        gradient = self.slope(lambda rows: entropy(self.network.logits(rows, x, self.own)).mean(1))
        step = self.rates * self.columns * self.tent.direction(gradient, torch.ones_like(self.rates))
        self.rows[:, : self.network.trained] -= self._chosen(step, x, y, asked) * step
        some = asked.any(1, keepdim=True).to(self.rates)
        gradient = self.slope(lambda rows: mean_over(cross_entropy(self.network.logits(rows, x, self.own), y), asked))
        self.descend(self.taught.direction(gradient, some), torch.ones_like(self.columns))
        return Played(logits.argmax(2), asked)

    def _chosen(self, step: Tensor, x: Tensor, y: Tensor, asked: Tensor) -> Tensor:
        """The factor on the step that the labels prefer, (models x 1)."""
        anchor = torch.softmax(self.network.logits(self.setting.rows, x, self.own), 2)
        wrong, apart = [], []
        for factor in self.candidates:
            rows = self.rows.clone()
            rows[:, : self.network.trained] -= factor * step
            logits = self.network.logits(rows, x, self.own)
            wrong.append(mean_over(cross_entropy(logits, y), asked))
            apart.append(mean_over((torch.softmax(logits, 2) - anchor).square().mean(2), ~asked))
        value = _scaled(torch.stack(wrong, 1)) + _scaled(torch.stack(apart, 1))
        weight = self.renewal * asked.any(1, keepdim=True).to(self.value)
        self.value.lerp_(value, weight)
        return self.factors[self.value.argmin(1)][:, None]


class EATTA(Peer):
    """EATTA (Wang and Ding, CVPR 2025): label the samples whose prediction noise in the features changes the most.

        score_i = p_w(x_i)_c - p_w(x_i; features + noise)_c,  c = argmax p_w(x_i)     at the border of source and target
        g_s = grad mean over the labels of -log p_w(y),   g_u = grad mean over {i: H(p_w(x_i)) < 0.4 log C} of H
        a  <- 0.9 a + 0.1 |g_u| / (|g_s| + |g_u|)                                      gradient norms are balanced
        w  <- w - rate Adam(a g_s + (1 - a) g_u)                                       g_u alone without a label

    over the norms' factors and shifts. The paper labels one sample per batch; here a batch buys what the budget allows.
    Ours to decide: the noise is normal, with a tenth of the features' deviation; the paper's details of the weights and
    of the noise could not be compared with its code.
    """

    name, title, paper = "eatta", "EATTA", "Wang and Ding, CVPR 2025"
    rate, labelled, norms_only = 1e-3, True, True
    noise = 0.1

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.optimiser = Adam(self.rows, self.network.trained)
        self.meter = Meter(setting.budget, setting.batch)
        self.balance = torch.full_like(self.rates, 0.5)
        self.changing += [*self.optimiser.changing, *self.meter.changing, self.balance]

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        logits, features = self.network.score(self.rows, x, self.own)
        noise = self.noise * self.normal(t, 0, *features.shape[1:])
        shaken = torch.softmax(self.network.score(self.rows, x, self.own, noise).logits, 2)
        sure, decision = torch.softmax(logits, 2).max(2)
        asked = self.meter.choose(sure - shaken.gather(2, decision[:, :, None])[:, :, 0])
        reliable = (entropy(logits) < 0.4 * math.log(self.network.classes)) & ~asked

        def unlabelled(rows: Tensor) -> Tensor:
            return mean_over(entropy(self.network.logits(rows, x, self.own)), reliable)

        def labels(rows: Tensor) -> Tensor:
            return mean_over(cross_entropy(self.network.logits(rows, x, self.own), y), asked)

        pulled, drawn = (self.columns * self.slope(loss) for loss in (labels, unlabelled))
        sizes = [torch.linalg.vector_norm(part, dim=1, keepdim=True) for part in (pulled, drawn)]
        both = (asked.any(1, keepdim=True) & reliable.any(1, keepdim=True)).to(self.rates)
        self.balance.lerp_(sizes[1] / (sizes[0] + sizes[1]).clamp(min=1e-12), 0.1 * both)
        some = asked.any(1, keepdim=True).to(self.rates)
        gradient = some * self.balance * pulled + (1.0 - some * self.balance) * drawn
        taken = (asked | reliable).any(1, keepdim=True).to(self.rates)
        self.descend(self.optimiser.direction(gradient, taken), self.columns)
        return Played(decision, asked)


def nearest_to_new_clusters(
    features: Tensor, unsure: Tensor, anchors: Tensor, held: Tensor, wanted: Tensor, most: int, passes: int = 3
) -> Tensor:
    """A score (models x samples) for the samples nearest to the centroids of new clusters; -inf for all others.

    The unsure samples are clustered beside the anchors, of which each model holds `held`, by K-means in `passes`
    passes: the centroids of old clusters stay at their anchors, which is K-means with anchors of great weight, and as
    many new centroids as are `wanted` (models,), at most `most`, start at the samples farthest from all centroids. A
    score is the squared distance to the nearest anchor.
    """
    outside = torch.arange(anchors.shape[1], device=held.device) >= held[:, None]
    old = _apart(features, anchors).masked_fill(outside[:, None], FAR).amin(2)
    nearest, centres = old.masked_fill(~unsure, -1.0), []
    for _ in range(most):
        far = nearest.argmax(1)
        centres.append(features.gather(1, far[:, None, None].expand(-1, 1, features.shape[2])))
        nearest = torch.minimum(nearest, _apart(features, centres[-1])[:, :, 0]).masked_fill(~unsure, -1.0)
    centre = torch.cat(centres, 1)
    numbers = torch.arange(most, device=held.device)
    spare = numbers >= wanted[:, None]
    for number in range(passes + 1):
        new = _apart(features, centre).masked_fill(spare[:, None], FAR)
        if number < passes:
            near, which = new.min(2)
            belongs = (which[:, :, None] == numbers) & ((near < old) & unsure)[:, :, None]
            count = belongs.sum(1)[:, :, None]
            mean = torch.bmm(belongs.to(features).transpose(1, 2), features) / count.clamp(min=1)
            centre = torch.where(count > 0, mean, centre)
    closest = new.masked_fill(~unsure[:, :, None], FAR).argmin(1)
    chosen = torch.zeros_like(old).scatter_add_(1, closest, (~spare).to(old))
    return torch.where((chosen > 0.0) & unsure, old, -torch.inf)


def k_margin(logits: Tensor, features: Tensor, most: int) -> Tensor:
    """The order (models x samples) in which K-centre greedy, from the origin, takes features times (1 - margin).

    The first `most` scores fall in this order, and are the distances at which the samples were taken; others are -inf.
    """
    best = torch.softmax(logits, 2).topk(2, 2).values
    points = features * (1.0 - (best[:, :, :1] - best[:, :, 1:]))
    distance = points.square().sum(2)
    score = torch.full_like(distance, -torch.inf)
    for _ in range(most):
        far, taken = distance.max(1, keepdim=True)
        score = score.scatter(1, taken, torch.where(far >= 0.0, far, -torch.inf))
        point = points.gather(1, taken[:, :, None].expand(-1, 1, points.shape[2]))
        distance = torch.minimum(distance, _apart(points, point)[:, :, 0]).scatter(1, taken, -1.0)
    return score


def _apart(x: Tensor, z: Tensor) -> Tensor:
    """Squared distances (models x samples x others) of features."""
    cross = torch.bmm(x, z.transpose(1, 2))
    return (x.square().sum(2)[:, :, None] + z.square().sum(2)[:, None, :] - 2.0 * cross).clamp(min=0.0)


def _scaled(values: Tensor) -> Tensor:
    """Values (models x candidates) scaled to 0 ... 1 over the candidates; 0 where all are equal."""
    low = values.amin(1, keepdim=True)
    return (values - low) / (values.amax(1, keepdim=True) - low).clamp(min=1e-12)
