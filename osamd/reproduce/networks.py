"""The paper's networks and their training on the source; trained networks are kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from osamd.files import user_cache


def convolutional(side: int, classes: int, padding: int = 2) -> nn.Module:
    """The appendix's network for Rotating MNIST and Portraits: two convolutions 5 x 5, stride 2, 64 channels.

    The paper does not give the padding; 2 halves the side, as in Kumar et al. (2020), whom the paper follows, and 0 is
    PyTorch's default. The main text says three layers, the appendix two.
    """
    left = side
    for _ in range(2):
        left = (left + 2 * padding - 5) // 2 + 1
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, stride=2, padding=padding),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5, stride=2, padding=padding),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.BatchNorm2d(64),
        nn.Flatten(),
        nn.Linear(64 * left * left, classes),
    )


def feedforward(features: int, classes: int) -> nn.Module:
    """The appendix's network for Cover-Type: two hidden layers of 30, dropout, softmax."""
    return nn.Sequential(
        nn.Linear(features, 30),
        nn.ReLU(),
        nn.Linear(30, 30),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(30, classes),
        nn.Softmax(1),
    )


class Training(NamedTuple):
    """How a network is trained on the source: Adam on the cross-entropy."""

    epochs: int
    batch: int
    rate: float = 1e-3
    initialisation: str = "Glorot"
    """"Glorot": uniform weights, and biases of 0; "PyTorch": as its layers come."""


def pretrained(
    make: Callable[[], nn.Module],
    training: Training,
    source: Callable[[], tuple[Tensor, Tensor]],
    seed: int,
    device: torch.device,
    about: Mapping[str, Any],
    progress: Callable[[], None] | None = None,
) -> nn.Module:
    """The network after training on the source, in evaluation mode on the CPU; `progress` is called once per epoch.

    It is cached under a digest of everything it depends on: the network, the training, the seed, the kind of
    device, and `about`, which stands for the source.
    """
    module = make()
    depends = [str(module), training, seed, device.type, torch.__version__, dict(about)]
    digest = hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()
    path = user_cache() / "pretrained" / f"{digest[:32]}.safetensors"
    if not _loaded(module, path):
        _train(module, training, *source(), seed, device, progress)
        _keep(module, path)
    elif progress is not None:
        for _ in range(training.epochs):
            progress()
    return module.cpu().eval()


def _loaded(module: nn.Module, path: Path) -> bool:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError):  # missing, damaged, or for another network
        return False
    return True


def _keep(module: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        save_file({name: tensor.cpu().contiguous() for name, tensor in module.state_dict().items()}, partial)
        os.replace(partial, path)
    except OSError:
        pass  # a cache that cannot be written costs time and nothing else


def _train(
    module: nn.Module,
    training: Training,
    x: Tensor,
    y: Tensor,
    seed: int,
    device: torch.device,
    progress: Callable[[], None] | None,
) -> None:
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):  # dropout draws from torch's global generator; restore it afterwards
        torch.manual_seed(seed)
        for part in module.modules():
            if isinstance(part, nn.Linear | nn.Conv2d):
                if training.initialisation == "PyTorch":
                    part.reset_parameters()
                else:
                    nn.init.xavier_uniform_(part.weight)
                    if part.bias is not None:
                        nn.init.zeros_(part.bias)
        module.to(device).train()
        probabilities = isinstance(list(module.children())[-1], nn.Softmax)
        x, y = x.to(device), y.to(device)
        optimiser = torch.optim.Adam(module.parameters(), training.rate)
        for _ in range(training.epochs):
            for batch in torch.randperm(len(x)).to(device).split(training.batch):
                optimiser.zero_grad()
                _cross_entropy(module(x[batch]), y[batch], probabilities).backward()
                optimiser.step()
            if progress is not None:
                progress()


def _cross_entropy(outputs: Tensor, y: Tensor, probabilities: bool) -> Tensor:
    logits = outputs.clamp(min=1e-7).log() if probabilities else outputs
    return nn.functional.cross_entropy(logits, y)
