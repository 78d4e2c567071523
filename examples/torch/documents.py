#!/usr/bin/env python3
"""A small GPT learns from rows that are filled with stories, none of which may see another.

python documents.py [--steps=N] [--device=cuda]

It is trained twice with the same seeds: with regard.torch, which takes the mask as a function, and with PyTorch's own
attention, which takes it as a matrix. The function reads the document of each token from a tensor, a new one at each
step: it is traced and compiled once. Forward and backward both enter the losses, which are equal within rounding; the
program fails if they are not. Takes half a minute on two cores.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from typing import NamedTuple

import torch
from stories import WORDS, story
from torch import Tensor
from torch.nn import functional as F
from transformer import Attention, Training

import regard.torch

LENGTH, BATCH, MOST_EVENTS = 128, 8, 6
SIZES = (len(WORDS), LENGTH, 128, 2, 3)  # words, length, width, heads, layers
NO_TARGET = -100  # which cross_entropy ignores
MOST_APART = 1e-2  # of two losses: training amplifies rounding step by step


class Batch(NamedTuple):
    """Each is [BATCH, LENGTH]."""

    tokens: Tensor
    targets: Tensor  # the next word of the same document
    positions: Tensor  # within the document
    documents: Tensor  # their numbers, int64


def filled_row(chance: random.Random) -> list[tuple[int, int, int, int]]:
    """Stories one after another, the last of which is cut off at the end of the row."""
    row: list[tuple[int, int, int, int]] = []
    document = 0
    while len(row) < LENGTH:
        words = story(chance, MOST_EVENTS)
        targets = [*words[1:], NO_TARGET]
        row += zip(words, targets, range(len(words)), [document] * len(words))
        document += 1
    return row[:LENGTH]


def batch(chance: random.Random, device: str) -> Batch:
    rows = torch.tensor([filled_row(chance) for _ in range(BATCH)], device=device)
    return Batch(*rows.unbind(-1))


def with_regard(documents: Tensor) -> Attention:
    def keep(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        return (documents[b, q_idx] == documents[b, kv_idx]) & (kv_idx <= q_idx)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = regard.torch.attention(q, k, v, keep=keep)
        return o

    return attention


def with_sdpa(documents: Tensor) -> Attention:
    seen = (documents[:, :, None] == documents[:, None, :]).tril()[:, None]

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # it takes [b, heads, s, d]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2)

    return attention


ATTENTIONS = {"sdpa, matrix": with_sdpa, "regard, function": with_regard}


def train(steps: int, device: str = "cpu") -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The loss of each step, and its milliseconds, by attention function."""
    chance = random.Random(0)
    trainings = {name: Training(*SIZES, device=device) for name in ATTENTIONS}
    losses: dict[str, list[float]] = {name: [] for name in ATTENTIONS}
    times: dict[str, list[float]] = {name: [] for name in ATTENTIONS}
    for step in range(steps):
        tokens, targets, positions, documents = batch(chance, device)
        for name, training in trainings.items():
            start = time.perf_counter()
            hidden = training.model(tokens, positions, ATTENTIONS[name](documents))
            losses[name].append(training.step(training.model.loss(hidden, targets)))  # so the GPU has finished
            times[name].append((time.perf_counter() - start) * 1e3)
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step + 1:4}  " + "   ".join(f"{name} {loss[-1]:.5f}" for name, loss in losses.items()))
    return losses, times


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    losses, times = train(options.steps, options.device)
    apart = max(abs(one - other) for one, other in zip(*losses.values()))
    print(f"The losses are apart by {apart:.1e} at most.")
    print("; ".join(f"{name}: {statistics.median(ms):.0f} ms a step" for name, ms in times.items()))
    if not apart < MOST_APART:
        sys.exit(f"they may be apart by {MOST_APART}: the two attentions compute different masks")


if __name__ == "__main__":
    main(sys.argv[1:])
