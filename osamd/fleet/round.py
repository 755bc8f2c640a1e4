"""The round of `osamd.paper.algorithm` for a fleet: many models, each with its own sample, method and rates, in step.

Nothing here branches on data, so that a GPU can replay the whole round: a model that got no label takes a step of
weight 0. The differences between methods are known beforehand and decide which models take part: rows are ordered so
that the models with the most inner loops come first and those without a student (PAA) last, and every part of the round
works on the first rows, as many as `FleetPlan` says. The types are those of `osamd.paper.algorithm`, with a model axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from osamd.fleet.devices import aside
from osamd.fleet.net import Net
from osamd.fleet.reading import decide, margin, on_scores, pointing, towards
from osamd.paper import algorithm
from osamd.paper.losses import Loss


class FleetState(NamedTuple):
    """Teachers theta_t and students w_hat_t, one row per model (models x size); `learn` changes them in place."""

    teacher: Tensor
    student: Tensor


class FleetDecision(NamedTuple):
    """What the round says about one sample per model, before any label is known; vectors with one entry per model."""

    label: Tensor
    pseudolabel: Tensor
    margin: Tensor
    probability: Tensor
    query: Tensor
    scores: Tensor
    """The scores of the parameters that decide."""
    adapted: Tensor
    """w_t of the models that have a student."""
    tape: Any
    """The tape of the forward pass with `adapted`, for the backward pass."""
    heard: tuple[Tensor, Any] | None
    """The teacher's scores and tape; None if the teacher may have moved since, so that `learn` computes them again."""


class FleetRates(NamedTuple):
    """`osamd.paper.algorithm.Rates` with one entry per model, and the L2 coefficient of every trained column."""

    self_training: Tensor
    sigma: Tensor
    floor: Tensor
    eta: Tensor
    cap: Tensor
    target: Tensor
    scale: Tensor
    inner_rate: Tensor
    penalty: Tensor


class FleetPlan(NamedTuple):
    """How many of the first models take part in each part of the round; it is known before the first round."""

    loops: tuple[int, ...]
    """The number of models in each inner loop."""
    students: int
    """The number of models that have a student."""
    fixed_scale: bool
    """Whether every teacher step has a given scale, so that no gradient norm is needed."""


class FleetRound(NamedTuple):
    """The two halves of a round and the loss, bound to a network and rates."""

    observe: Callable[[FleetState, Tensor, Tensor], FleetDecision]
    learn: Callable[[FleetState, Tensor, FleetDecision, Tensor], None]
    value: Callable[[Tensor, Tensor], Tensor]
    """The loss without its L2 term, from scores and labels."""


def plan(rates: Sequence[algorithm.Rates]) -> tuple[list[int], FleetPlan]:
    """The order of the models' rows, and the plan for them."""

    def loops(one: algorithm.Rates) -> int:
        return one.inner_loops if one.self_training and not one.teacher_decides else 0

    order = sorted(range(len(rates)), key=lambda i: (rates[i].teacher_decides, -loops(rates[i])))
    most = max(loops(one) for one in rates)
    return order, FleetPlan(
        loops=tuple(sum(loops(one) > k for one in rates) for k in range(most)),
        students=sum(not one.teacher_decides for one in rates),
        fixed_scale=all(one.scale > 0.0 for one in rates),
    )


def stack_rates(rates: Sequence[algorithm.Rates], penalty: Tensor, like: Tensor) -> FleetRates:
    """The rates as columns, on the device and with the dtype of `like`."""
    columns = {
        name: torch.tensor([float(getattr(one, name)) for one in rates], dtype=torch.float64).to(like)
        for name in FleetRates._fields
        if name != "penalty"
    }
    return FleetRates(**columns, penalty=penalty.to(like))


def bind(net: Net, loss: Loss, rates: FleetRates, plan: FleetPlan) -> FleetRound:
    """The round for this network and these numbers; compare it with `osamd.paper.algorithm.bind`, line by line.

    It is long because the two halves share the parts by closure, as they do there.
    """
    value, slope = on_scores(loss, net.probabilities)
    students, trained = plan.students, net.trained
    decays = bool(loss.l2)

    def gradient(w: Tensor, tape: Any, q: Tensor, step: Tensor) -> Any:
        """step grad f(w), from its slope q on the scores, without the L2 term."""
        return net.backward(w, tape, q * step[:, None])

    def decay(w: Tensor, step: Tensor) -> Tensor | float:
        """step times the gradient of the L2 term at w."""
        return 2.0 * step[:, None] * rates.penalty * w[:, :trained] if decays else 0.0

    lengths = rates.inner_rate * rates.eta

    def inner_gradient_loops(w: Tensor, student: Tensor, x: Tensor, own: Tensor) -> None:
        """K gradient steps of w on eta f + D_R(., w_hat), from w_hat, for the models that train themselves."""
        for n in plan.loops:
            rows, step = w[:n], lengths[:n]
            shrunk = decay(rows, step)
            taken = net.gradient_at(rows, x[:n], own[:n], step, loss)
            net.descend(rows, taken, student[:n], rates.inner_rate[:n, None])
            if decays:
                rows[:, :trained] -= shrunk

    def observe(state: FleetState, x: Tensor, u: Tensor) -> FleetDecision:
        with aside(x.device) as copied:
            adapted = state.student[:students].clone()
        h, way_back = net.forward(state.teacher, x)
        pseudolabel = decide(h, net.binary)
        copied()
        with aside(x.device) as done:
            confidence, _ = margin(h, pseudolabel)
            doubt = rates.sigma / (rates.sigma + confidence).clamp(min=torch.finfo(h.dtype).tiny)
            # With sigma 0 the teacher is ignored, even if its scores are no longer finite.
            probability = torch.maximum(rates.floor, torch.where(rates.sigma > 0.0, doubt, 0.0))
            query = u < probability
        if plan.loops:
            inner_gradient_loops(adapted, state.student[:students], x, pointing(pseudolabel, h))
        scores, tape = net.forward(adapted, x[:students]) if students else (h[:0], None)
        scores = torch.cat([scores, h[students:]])
        done()
        label = decide(scores, net.binary)
        return FleetDecision(label, pseudolabel, confidence, probability, query, scores, adapted, tape, (h, way_back))

    def learn(state: FleetState, x: Tensor, decision: FleetDecision, y: Tensor) -> None:
        """Teachers and students learn from the labels y, which are UNLABELLED where there is none."""
        known = y >= 0
        labelled = known.to(state.teacher.dtype)
        target = torch.where(known, y, decision.pseudolabel)
        h, tape = decision.heard or net.forward(state.teacher, x)
        with aside(x.device) as done:
            psi, rival = margin(h, target)
            tau = rates.scale * (rates.target - psi).clamp(min=0.0)
            if not plan.fixed_scale:
                along = net.backward(state.teacher, tape, towards(rival, target, h, torch.ones_like(psi)))
                rows = net.dense(state.teacher, along)
                steepness = rows.square().sum(1).clamp(min=1e-30)
                tau = torch.where(rates.scale > 0.0, tau, (rates.target - psi).clamp(min=0.0) / steepness)
            tau = torch.minimum(rates.cap, tau) * labelled
            lesson = net.backward(state.teacher, tape, towards(rival, target, h, tau))  # held until `done`
            net.subtract(state.teacher, lesson)
        if students:
            weight = rates.eta * torch.maximum(labelled, rates.self_training)
            student, w, step = state.student[:students], decision.adapted, weight[:students]
            q = slope(decision.scores[:students], pointing(target, h)[:students])
            net.subtract(student, gradient(w, decision.tape, q, step))
            if decays:
                student[:, :trained] -= decay(w, step)
        done()

    return FleetRound(observe, learn, value)
