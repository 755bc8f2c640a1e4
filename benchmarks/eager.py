"""The round as a plain loop over one module, as one would write it without a fleet: the baseline of the fleets."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from osamd.paper import algorithm


class Eager:
    """One model: modules, autograd, a step at a time, branching on the data. Cross-entropy, tau with a fixed scale."""

    def __init__(self, module: nn.Module, rates: algorithm.Rates, probabilities: bool, device: torch.device) -> None:
        self.teacher = copy.deepcopy(module).eval().to(device)
        self.student = copy.deepcopy(module).eval().to(device)
        self.adapted = copy.deepcopy(module).eval().to(device)
        self.rates, self.probabilities = rates, probabilities
        self._taught: list[Tensor] = list(self.teacher.parameters())
        self._kept: list[Tensor] = list(self.student.parameters())
        self._moved: list[Tensor] = list(self.adapted.parameters())

    def _loss(self, scores: Tensor, y: int) -> Tensor:
        if self.probabilities:
            return -scores[0, y].clamp(min=1e-30).log()
        return nn.functional.cross_entropy(scores, torch.tensor([y], device=scores.device))

    def step(self, x: Tensor, y: int, u: float) -> int:
        """One round; returns the decision."""
        rates = self.rates
        with torch.no_grad():
            scores = self.teacher(x[None])
        best = scores[0].topk(2)
        pseudolabel = int(best.indices[0])
        confidence = float(best.values[0] - best.values[1])
        decision = pseudolabel
        if not rates.teacher_decides:
            self._adapt(x, pseudolabel)
            with torch.no_grad():
                decision = int(self.adapted(x[None]).argmax())
        probability = max(rates.floor, rates.sigma / (rates.sigma + confidence)) if rates.sigma > 0 else rates.floor
        asked = u < probability
        if asked:
            self._teach(x, y)
        if not rates.teacher_decides and (asked or rates.self_training):
            value = self._loss(self.adapted(x[None]), y if asked else pseudolabel)
            gradients = torch.autograd.grad(value, self._moved)
            with torch.no_grad():
                torch._foreach_add_(self._kept, gradients, alpha=-rates.eta)
        return decision

    def _adapt(self, x: Tensor, pseudolabel: int) -> None:
        rates, rows, anchor = self.rates, self._moved, self._kept
        with torch.no_grad():
            torch._foreach_copy_(rows, anchor)
        for _ in range(rates.inner_loops if rates.self_training else 0):
            gradients = torch.autograd.grad(self._loss(self.adapted(x[None]), pseudolabel), rows)
            with torch.no_grad():
                torch._foreach_lerp_(rows, anchor, rates.inner_rate)
                torch._foreach_add_(rows, gradients, alpha=-rates.inner_rate * rates.eta)

    def _teach(self, x: Tensor, y: int) -> None:
        scores = self.teacher(x[None])[0]
        others = scores.masked_fill(torch.arange(len(scores), device=scores.device) == y, -torch.inf)
        psi = scores[y] - others.max()
        gradients = torch.autograd.grad(psi, self._taught)
        tau = min(self.rates.cap, self.rates.scale * max(0.0, self.rates.target - float(psi.detach())))
        with torch.no_grad():
            torch._foreach_add_(self._taught, gradients, alpha=tau)
