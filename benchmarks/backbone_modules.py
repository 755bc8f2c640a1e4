"""Networks of the sizes that people have, with random weights: ResNet-18, ViT-S/16, and a small encoder of texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.second, self.second_norm = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        shorter = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if into == out and stride == 1 else shorter

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def resnet18(classes: int = 10) -> nn.Module:
    """He et al. (CVPR 2016): 11.2 million parameters with ten classes, for images of 3 x 224 x 224."""
    widths = (64, 64, 128, 256, 512)
    blocks: list[nn.Module] = []
    for i in range(4):
        blocks += [Block(widths[i], widths[i + 1], 1 if i == 0 else 2), Block(widths[i + 1], widths[i + 1], 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


class Layer(nn.Module):
    """One layer of a transformer, with the norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = self.attention(self.norm(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.mixed(attended.transpose(1, 2).flatten(2))
        made: Tensor = x + self.inner(self.inner_norm(x))
        return made


class ViTSmall(nn.Module):
    """Dosovitskiy et al. (ICLR 2021) in the size S/16: 21.7 million parameters, for images of 3 x 224 x 224."""

    def __init__(self, classes: int = 10, width: int = 384, layers: int = 12, heads: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.places
        logits: Tensor = self.head(self.norm(self.layers(tokens))[:, 0])
        return logits


class TextEncoder(nn.Module):
    """Token ids with a mask, of any length up to 512, as in BERT: here 5.4 million parameters."""

    def __init__(self, classes: int = 4, words: int = 8000, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.layers = nn.ModuleList(Layer(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.table(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        for layer in self.layers:
            x = layer(x, attention_mask.bool()[:, None, None, :])
        weights = attention_mask[:, :, None].to(x.dtype)
        logits: Tensor = self.head(self.norm((x * weights).sum(1) / weights.sum(1)))
        return logits
