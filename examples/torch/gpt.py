#!/usr/bin/env python3
"""A small GPT learns generated stories, once with PyTorch's own attention and once with regard.torch.

python gpt.py [--steps=N] [--device=cuda] [--picture=FILE.svg]

Both models start with the same weights and see the same text, so their losses fall together. They round differently in
the seventh digit, and training amplifies such differences step by step: after a hundred steps they reach the fourth
digit of a loss. There is no dropout, because the two libraries draw different masks. Takes half a minute on two cores.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import torch
from curves import picture
from stories import WORDS, story
from torch import Tensor
from torch.nn import functional as F
from transformer import Training

import regard.torch

LENGTH, BATCH = 128, 16
SIZES = (len(WORDS), LENGTH, 128, 2, 3)  # words, length, width, heads, layers


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # it takes [b, heads, s, d]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def with_regard(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return regard.torch.attention(q, k, v, causal=True)


ATTENTIONS = {"sdpa": sdpa, "regard": with_regard}


def batch(chance: random.Random) -> Tensor:
    """Words, [BATCH, LENGTH + 1]: stories without a break between them, cut off at the end of the row."""
    rows = []
    for _ in range(BATCH):
        row: list[int] = []
        while len(row) <= LENGTH:
            row += story(chance, most_events=6)
        rows.append(row[: LENGTH + 1])
    return torch.tensor(rows)


def train(steps: int, device: str = "cpu") -> dict[str, list[float]]:
    """The loss of each step, by attention function."""
    chance = random.Random(0)
    positions = torch.arange(LENGTH, device=device)
    trainings = {name: Training(*SIZES, device=device) for name in ATTENTIONS}
    losses: dict[str, list[float]] = {name: [] for name in ATTENTIONS}
    for step in range(steps):
        words = batch(chance).to(device)
        for name, training in trainings.items():
            hidden = training.model(words[:, :-1], positions, ATTENTIONS[name])
            losses[name].append(training.step(training.model.loss(hidden, words[:, 1:])))
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step + 1:4}  " + "  ".join(f"{name} {loss[-1]:.5f}" for name, loss in losses.items()))
    return losses


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--picture", type=Path, default="gpt.svg", help="the file to write; by default %(default)s")
    options = parser.parse_args(arguments)
    losses = train(options.steps, options.device)
    apart = max(abs(one - other) for one, other in zip(*losses.values()))
    print(f"The losses are apart by {apart:.1e} at most. Both curves: {options.picture}")
    options.picture.write_text(picture("A small GPT, trained twice with the same seeds", losses))


if __name__ == "__main__":
    main(sys.argv[1:])
