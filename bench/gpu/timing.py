"""Times of GPU work that takes turns, each call with a cold second-level cache."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

FLUSHED_BYTES = 256 << 20  # several times the second-level cache
# A GPU at its limit of power takes so long to find its clock, on a way that depends on what ran before
# (docs/notebook/hopper.md): the same for every contestant, a matrix product of so many rows and columns.
LOAD_MILLISECONDS, SETTLING_MILLISECONDS = 150, 200
LOAD_SIZE = 8192


def interleaved(calls: dict[str, Callable[[], Any]], milliseconds: float, rounds: int = 3) -> dict[str, list[float]]:
    """For each call the median of each round, in ms; what counts of a round of a call takes about `milliseconds`.

    In a round one contestant runs after the other, each one first for as long as its clock takes to settle, and the
    same load comes before each. Every other round goes backwards, so that rounds differ where that is not enough.
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
        """How often `call` runs in each stretch of so many milliseconds."""
        call()
        once = sample(call, 3) + 0.1  # with the flush
        return [max(5, int(stretch / once)) for stretch in stretches]

    def load() -> None:
        torch.mm(factor, factor)

    (loads,) = runs(load, LOAD_MILLISECONDS)
    counts = {name: runs(call, SETTLING_MILLISECONDS, milliseconds) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            sample(load, loads)
            settling, counted = counts[name]
            found[name].append(sample(calls[name], settling + counted, settling))
        order.reverse()
    return found
