"""Times of calls that take turns."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable

# Worker threads of the other libraries spin for a while when they have nothing to do; whoever comes next would run
# beside them.
PAUSE = 0.02


@dataclass
class Times:
    samples: dict[str, list[float]]  # ms, by contestant

    @property
    def rounds(self) -> int:
        return len(next(iter(self.samples.values())))

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def rounded(self, name: str) -> list[float]:
        return [round(value, 4) for value in self.samples[name]]


def timed(call: Callable[[], Any]) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def interleaved(calls: dict[str, Callable[[], Any]], seconds: float, rounds: int = 0, least: int = 5) -> Times:
    """Every call in turn, round by round, for about `seconds` in all, `least` to 25 rounds; or `rounds` rounds."""
    warm = sum(timed(call) for call in calls.values()) / 1e3 + PAUSE * len(calls)
    rounds = rounds or max(least, min(25, int(seconds / warm)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            samples[name].append(timed(calls[name]))
        order = order[1:] + order[:1]  # nobody always follows the same one
    return Times(samples)
