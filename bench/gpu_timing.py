"""Times of GPU work that takes turns, each call with a cold second-level cache."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

FLUSHED_BYTES = 256 << 20  # several times the second-level cache


def interleaved(calls: dict[str, Callable[[], Any]], milliseconds: float, rounds: int = 3) -> dict[str, list[float]]:
    """For each call the median of each round, in ms; what counts of a round of a call takes about `milliseconds`.

    In a round every call runs several times, one contestant after the other. Every other round goes backwards, and
    the first half of a contestant's runs does not count: how fast a GPU at its limit of power runs depends on what ran
    before.
    """
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")

    def sample(call: Callable[[], Any], count: int) -> float:
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events[count // 2 :])

    counts = {}
    for name, call in calls.items():
        call()
        once = sample(call, 3) + 0.1  # with the flush
        counts[name] = max(10, min(200, int(2 * milliseconds / once)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            found[name].append(sample(calls[name], counts[name]))
        order.reverse()
    return found
