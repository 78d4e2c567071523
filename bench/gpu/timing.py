"""Times GPU work that takes turns, each call with a cold L2 cache."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

FLUSHED_BYTES = 256 << 20  # several times the L2 cache
# A GPU at its power limit takes this long to settle on a clock, and how it gets there depends on what ran before
# (docs/notebook/hopper.md). So the same load, a matrix product, comes before every contestant.
LOAD_MILLISECONDS, SETTLING_MILLISECONDS = 150, 200
LOAD_SIZE = 8192


def interleaved(
    calls: dict[str, Callable[[], Any]],
    milliseconds: float,
    rounds: int = 3,
    settling: tuple[float, float] = (LOAD_MILLISECONDS, SETTLING_MILLISECONDS),
) -> dict[str, list[float]]:
    """For each call the median of each round, in ms; the timed part of a call's round takes about `milliseconds`.

    In a round the contestants run one after the other, each preceded by the same load and first run until the clock has
    settled; `settling` is how long both take. Every other round runs in reverse order, so that the rounds differ if
    that is not enough.
    """
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    factor = torch.randn(LOAD_SIZE, LOAD_SIZE, dtype=torch.bfloat16, device="cuda")

    def sample(call: Callable[[], Any], count: int, first: int = 0) -> float:
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events[first:])

    def runs(call: Callable[[], Any], *stretches: float) -> list[int]:
        """How often `call` runs in each stretch, given in milliseconds."""
        call()
        once = sample(call, 3) + 0.1  # with the flush
        return [max(5, int(stretch / once)) for stretch in stretches]

    def load() -> None:
        torch.mm(factor, factor)

    (loads,) = runs(load, settling[0])
    counts = {name: runs(call, settling[1], milliseconds) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            sample(load, loads)
            first, counted = counts[name]
            found[name].append(sample(calls[name], first + counted, first))
        order.reverse()
    return found
