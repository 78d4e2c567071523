#!/usr/bin/env python3
"""A small BERT learns the masked words of stories of different lengths: once packed without padding, with
regard.torch.attention_varlen, and once padded to the longest, with PyTorch's own attention and a mask.

python bert_varlen.py [--steps=N] [--device=cuda]

Both models start with the same weights and see the same stories, so their losses are equal within rounding; the packed
one computes nothing for padding. Takes half a minute on two cores.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import dataclass

import torch
from stories import WORDS, story
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformer import Attention, Training

import regard.torch

MASK, PADDING = len(WORDS), len(WORDS) + 1  # words besides those of stories
BATCH, MOST_EVENTS = 16, 24
SIZES = (len(WORDS) + 2, 7 * MOST_EVENTS + 7, 128, 2, 3)  # words, length, width, heads, layers


@dataclass(frozen=True)
class Batch:
    tokens: Tensor
    positions: Tensor
    attention: Attention


def packed(stories: list[Tensor], device: str) -> Batch:
    """All stories in one row, [tokens], and the offset of each."""
    lengths = torch.tensor([len(words) for words in stories])
    longest = int(lengths.max())
    offsets = F.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32)
    positions = torch.cat([torch.arange(len(words)) for words in stories])

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = regard.torch.attention_varlen(q, k, v, offsets, offsets, longest, longest)
        return o

    return Batch(torch.cat(stories).to(device), positions.to(device), attention)


def padded(stories: list[Tensor], device: str) -> Batch:
    """Each story in a separate row, [b, longest], and a mask that hides the rest of the row."""
    tokens = pad_sequence(stories, batch_first=True, padding_value=PADDING).to(device)
    seen = (tokens != PADDING)[:, None, None]

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # it takes [b, heads, s, d]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2)

    return Batch(tokens, torch.arange(tokens.shape[1], device=device), attention)


LAYOUTS = {"padded, sdpa": padded, "packed, regard": packed}


def masked_stories(chance: random.Random) -> tuple[list[Tensor], Tensor]:
    """Stories with every seventh word or so masked, and the words that were there."""
    stories, hidden = [], []
    for _ in range(BATCH):
        words = story(chance, MOST_EVENTS)
        masked = [MASK if chance.random() < 0.15 else word for word in words]
        hidden += [word for word, now in zip(words, masked) if now == MASK]
        stories.append(torch.tensor(masked))
    return stories, torch.tensor(hidden)


def train(steps: int, device: str = "cpu") -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The loss of each step, and its milliseconds, by layout."""
    chance = random.Random(0)
    trainings = {name: Training(*SIZES, device=device) for name in LAYOUTS}
    losses: dict[str, list[float]] = {name: [] for name in LAYOUTS}
    times: dict[str, list[float]] = {name: [] for name in LAYOUTS}
    for step in range(steps):
        stories, targets = masked_stories(chance)
        for name, training in trainings.items():
            start = time.perf_counter()
            batch = LAYOUTS[name](stories, device)
            states = training.model(batch.tokens, batch.positions, batch.attention)
            loss = training.model.loss(states[batch.tokens == MASK], targets.to(device))
            losses[name].append(training.step(loss))  # a number, so the GPU has finished
            times[name].append((time.perf_counter() - start) * 1e3)
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step + 1:4}  " + "   ".join(f"{name} {loss[-1]:.5f}" for name, loss in losses.items()))
    return losses, times


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    losses, times = train(options.steps, options.device)
    apart = max(abs(one - other) for one, other in zip(*losses.values()))
    print(f"The losses are apart by {apart:.1e} at most.")
    print("; ".join(f"{name}: {statistics.median(ms):.0f} ms a step" for name, ms in times.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
