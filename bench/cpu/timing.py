"""Times calls that take turns."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cpu.pinning import one_core_each

# A round counts as disturbed if other processes used more than this share of the cores, beyond the clock's resolution.
DISTURBED = 0.1
TICKS = 0.03


@dataclass(frozen=True)
class Turn:
    """What a contestant does in its turn: sleeps for `pause`, then makes as many calls as take `ms`, or one."""

    pause: float  # s
    ms: float


# Idle worker threads of other libraries spin for a while; without the pause the next contestant would compete with
# them.
BESIDE_OTHERS = Turn(pause=0.02, ms=0)
# Regard alone. Sixteen sleeping cores take 0.2 to 0.4 ms to wake up, whatever the work is.
ALONE = Turn(pause=0, ms=50)


@dataclass
class Times:
    samples: dict[str, list[float]]  # ms, by contestant
    others: float  # share of the cores that other processes and virtual machines used meanwhile

    @property
    def rounds(self) -> int:
        return len(next(iter(self.samples.values())))

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def ratio(self, name: str, base: str) -> float:
        """Median of the ratios within each round, so that whatever slows a whole round cancels out."""
        return statistics.median(x / y for x, y in zip(self.samples[name], self.samples[base]))

    def rounded(self, name: str) -> list[float]:
        return [round(value, 4) for value in self.samples[name]]


def timed(call: Callable[[], Any], pause: float, times: int = 1) -> float:
    """Milliseconds of one call, the mean of `times` calls."""
    time.sleep(pause)
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) * 1e3 / times


def _others_seconds() -> float:
    """Core seconds that were neither idle nor used by this process."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def interleaved(
    calls: dict[str, Callable[[], Any]],
    threads: int,
    seconds: float,
    rounds: int = 0,
    least: int = 5,
    turn: Turn = BESIDE_OTHERS,
) -> Times:
    """Runs the calls in turn, round by round: for about `seconds` in all and `least` to 25 rounds, or `rounds` rounds.

    On a busy machine twice as many rounds are run, and only the quieter half of them counts.
    """
    for call in calls.values():
        call()
    once = {name: timed(call, turn.pause) for name, call in calls.items()}
    repeats = {name: max(1, round(turn.ms / ms)) for name, ms in once.items()}
    round_ms = sum(turn.pause * 1e3 + repeats[name] * ms for name, ms in once.items())
    rounds = rounds or max(least, min(25, int(seconds * 1e3 / round_ms)))
    found: list[tuple[float, dict[str, float]]] = []
    order = list(calls)
    quiet = 0
    with one_core_each(threads):
        while quiet < rounds and len(found) < 2 * rounds:
            start, others = time.perf_counter(), _others_seconds()
            times = {name: timed(calls[name], turn.pause, repeats[name]) for name in order}
            order = order[1:] + order[:1]  # no contestant always follows the same one
            others = _others_seconds() - others
            capacity = (time.perf_counter() - start) * (os.cpu_count() or 1)
            quiet += others < DISTURBED * capacity + TICKS
            found.append((max(others, 0.0) / capacity, times))
    found = sorted(found, key=lambda round_: round_[0])[:rounds]
    samples = {name: [times[name] for _, times in found] for name in calls}
    return Times(samples, statistics.mean(share for share, _ in found))
