"""CoTTA: a student that follows the averaged predictions of its own moving average."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from osamd.reproduce.adaptation.entropy_minimisation import unasked
from osamd.reproduce.adaptation.peer import Adam, Peer, Played, Setting

AUGMENTATIONS = 32
TOGETHER = 2048
"""Samples of all models that are scored in one pass over augmented samples, so that memory stays small."""


class CoTTA(Peer):
    """CoTTA (Wang et al., CVPR 2022): a mean teacher with augmentation-averaged predictions, and stochastic restoring.

        p' = mean over 32 augmentations of p_teacher, where the source network's confidence is below c, else p_teacher
        w <- w - rate Adam(grad mean_i -sum_c p'_c log p_w(x_i)_c)
        teacher <- EMA teacher + (1 - EMA) w
        each parameter of w goes back to the source with probability RESTORE

    The decision is that of p'. c is the 5 % quantile of the source network's confidence on source samples, as in the
    paper. Ours to decide: augmented digits and faces are turned by up to 8 degrees, moved, scaled, and changed in
    contrast and brightness, with noise, but not mirrored; augmented rows of a table get noise alone. BatchNorm's
    statistics are those of all augmented copies of a batch together, where the paper takes those of each copy of the
    batch.
    """

    name, title, paper = "cotta", "CoTTA", "Wang et al., CVPR 2022"
    rate = 1e-3
    average, restore = 0.999, 0.01

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.teacher = setting.rows.clone()
        self.optimiser = Adam(self.rows, self.network.trained)
        self.changing += [self.teacher, *self.optimiser.changing]
        with torch.no_grad():
            sure = torch.softmax(self.network.logits(setting.rows, setting.source[0]), 2).amax(2)
        self.confident = torch.quantile(sure, 0.05, dim=1, keepdim=True)

    def play(self, x: Tensor, y: Tensor, t: Tensor) -> Played:
        target = self._target(x, t)
        gradient = self.slope(
            lambda rows: -(target * torch.log_softmax(self.network.logits(rows, x, self.own), 2)).sum(2).mean(1)
        )
        self.descend(self.optimiser.direction(gradient, torch.ones_like(self.rates)), self.columns)
        self.teacher.lerp_(self.rows, 1.0 - self.average)
        trained = self.network.trained
        back = self.uniform(t, 0, trained) < self.restore
        self.rows[:, :trained] = torch.where(back, self.setting.rows[:, :trained], self.rows[:, :trained])
        return unasked(target)

    def _target(self, x: Tensor, t: Tensor) -> Tensor:
        """The teacher's probabilities, averaged over augmentations where the source network is not confident."""
        plain = torch.softmax(self.network.logits(self.teacher, x, self.own), 2)
        sure = torch.softmax(self.network.logits(self.setting.rows, x, self.own), 2).amax(2)
        models, batch = x.shape[:2]
        per_pass = max(1, TOGETHER // (models * batch))
        mean = torch.zeros_like(plain)
        for first in range(0, AUGMENTATIONS, per_pass):
            count = min(per_pass, AUGMENTATIONS - first)
            changes = self.uniform(t, 1 + first, count, batch, 6)
            copies = augmented(x, changes, self.normal(t, 50 + first, count, *x.shape[1:]))
            logits = self.network.logits(self.teacher, copies.flatten(1, 2), self.own)
            mean += torch.softmax(logits, 2).unflatten(1, (count, batch)).sum(1) / AUGMENTATIONS
        return torch.where((sure < self.confident)[:, :, None], mean, plain)


def augmented(x: Tensor, u: Tensor, noise: Tensor) -> Tensor:
    """Copies (models x count x samples x shape), changed by noise and by u (models x count x samples x 6), uniform."""
    models, count = u.shape[:2]
    copies = x[:, None].expand(models, count, *x.shape[1:])
    if x.ndim == 5:
        angle = (2.0 * u[..., 0] - 1.0) * math.radians(8.0)
        scale, shift = 0.95 + 0.1 * u[..., 1], (2.0 * u[..., 2:4] - 1.0) / 16.0
        cosine, sine = scale * torch.cos(angle), scale * torch.sin(angle)
        matrix = torch.stack([cosine, -sine, shift[..., 0], sine, cosine, shift[..., 1]], -1).reshape(-1, 2, 3)
        flat = copies.flatten(0, 2)
        grid = functional.affine_grid(matrix, list(flat.shape), align_corners=False)
        copies = functional.grid_sample(flat, grid, align_corners=False).view(models, count, *x.shape[1:])
        contrast, bright = (u[..., i, None, None, None] for i in (4, 5))
        copies = (0.8 + 0.4 * contrast) * copies + 0.2 * (bright - 0.5)
    return copies + 0.05 * noise
