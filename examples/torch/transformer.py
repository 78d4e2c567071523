"""A small transformer that takes its attention as an argument: one model for any attention and any order of tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # takes q, k and v, [..., heads, d], like the result


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # views of one tensor
        x = x + self.out(attention(q, k, v).flatten(-2))
        x = x + self.mlp(self.norm2(x))
        return x


class Transformer(nn.Module):
    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """The last hidden states, [..., width], of tokens [...] at these positions of their sequences."""
        x: Tensor = self.words(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x, attention)
        x = self.norm(x)
        return x

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy of the words that the hidden states [..., width] predict."""
        logits = F.linear(hidden, self.words.weight)
        return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


class Training:
    """A model and its optimizer. Models of the same sizes start with the same weights."""

    def __init__(self, *sizes: int, device: str) -> None:
        torch.manual_seed(0)
        self.model = Transformer(*sizes).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=6e-4, betas=(0.9, 0.95))
        self.warm_up = torch.optim.lr_scheduler.LinearLR(self.optimizer, start_factor=0.05, total_iters=20)

    def step(self, loss: Tensor) -> float:
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.warm_up.step()
        return loss.item()
