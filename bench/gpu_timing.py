"""Times of GPU work that takes turns, each call with a cold second-level cache."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

FLUSHED_BYTES = 256 << 20  # several times the second-level cache
# A GPU at its limit of power takes so long to find its clock, whatever ran before (docs/hopper.md).
SETTLING_MILLISECONDS = 200


def interleaved(calls: dict[str, Callable[[], Any]], milliseconds: float, rounds: int = 3) -> dict[str, list[float]]:
    """For each call the median of each round, in ms; what counts of a round of a call takes about `milliseconds`.

    In a round one contestant runs after the other, and each one's clock settles before its runs count. Every other
    round goes backwards.
    """
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")

    def sample(call: Callable[[], Any], count: int, first: int = 0) -> float:
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events[first:])

    counts = {}
    for name, call in calls.items():
        call()
        once = sample(call, 3) + 0.1  # with the flush
        settling, counted = (max(5, int(time / once)) for time in (SETTLING_MILLISECONDS, milliseconds))
        counts[name] = settling + counted, settling
    found: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            found[name].append(sample(calls[name], *counts[name]))
        order.reverse()
    return found
