"""A small model trained on one long sequence that is sharded across several processes, on CPUs or GPUs.

Each process has its tokens of the sequence, all weights, and the same gradients after they were summed. Only attention
needs the other tokens. At the end one process trains the same model on the whole sequence, and the losses are compared:

    torchrun --nproc-per-node=4 examples/torch/long_context.py
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import regard.distributed
import regard.torch

LAYERS, HEADS, KV_HEADS, DIM, WIDTH, WORDS = 2, 8, 4, 16, 64, 32
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """RoPE of x, [b, s, heads, dim], for tokens at these positions."""
    frequencies = 10000.0 ** (-torch.arange(DIM // 2, device=x.device) / (DIM // 2))
    angles = (positions[:, None] * frequencies)[:, None]
    first, second = x.chunk(2, -1)
    return torch.cat((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), -1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(HEADS * DIM, WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * DIM, bias=False)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        heads = self.qkv(self.norm(x)).unflatten(-1, (-1, DIM))
        q, k, v = heads.split([HEADS, KV_HEADS, KV_HEADS], 2)
        x = x + self.out(attend(rotate(q, positions), rotate(k, positions), v).flatten(2))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, positions, attend)
        return self.head(x)


def train(tokens: Tensor, steps: int, attend: Attend, ranks: int) -> list[float]:
    """tokens: the whole sequence, [1, s + 1]. With one rank this process has all of it."""
    torch.manual_seed(0)
    model = Model().to(tokens.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    positions = torch.arange(inputs.shape[1], device=tokens.device)
    if ranks > 1:
        inputs, targets = regard.distributed.shard(inputs), regard.distributed.shard(targets)
        positions = regard.distributed.shard(positions, dim=0)
    losses = []
    for _ in range(steps):
        logits = model(inputs, positions, attend)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / ranks
        optimizer.zero_grad()
        loss.backward()
        if ranks > 1:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            dist.all_reduce(loss.detach_())
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--form", choices=("ring", "all_gather", "all_to_all"), default="ring")
    options = parser.parse_args(arguments)
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # Each quarter repeats the one before: what a token follows from is far from it, on another rank.
    start = torch.randint(WORDS, (1, options.tokens // 4), generator=torch.Generator().manual_seed(1))
    tokens = torch.cat((start.repeat(1, 4), start[:, :1]), 1).to(device)

    form = getattr(regard.distributed, f"{options.form}_attention")
    shared = train(tokens, options.steps, lambda q, k, v: form(q, k, v, causal=True), dist.get_world_size())
    alone = train(tokens, options.steps, lambda q, k, v: regard.torch.attention(q, k, v, causal=True), 1)
    if dist.get_rank() == 0:
        apart = max(abs(one - other) for one, other in zip(shared, alone))
        print(f"{dist.get_world_size()} processes: loss {shared[0]:.4f}, after {options.steps} steps {shared[-1]:.4f}")
        print(f"The losses of one process are apart by {apart:.1e} at most.")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
