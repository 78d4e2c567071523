"""The most that a machine can reach: calls measured along with the contestants if they do not take too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.cpu.timing import timed
from bench.shared.progress import duration

Call = Callable[[], Any]
LEAST_CALLS = 5  # of a ceiling, over the rounds of a cell


@dataclass(frozen=True)
class Ceiling:
    call: Call
    work: float  # of a call, in FLOP or bytes
    trial: Call  # the same call, but small
    trial_work: float

    def projected(self) -> float:
        """Seconds of a call, from a trial: some libraries use a plain loop where the machine has no instructions."""
        self.trial()
        return timed(self.trial, pause=0) / 1e3 * self.work / self.trial_work


def affordable(ceilings: dict[str, Ceiling], seconds: float) -> tuple[dict[str, Ceiling], dict[str, str]]:
    """The ceilings whose calls take no longer than the cell's `seconds`; for each of the others, the reason."""
    kept, left_out = {}, {}
    for name, ceiling in ceilings.items():
        projected = ceiling.projected()
        if LEAST_CALLS * projected <= seconds:
            kept[name] = ceiling
        else:
            left_out[name] = (
                f"{LEAST_CALLS} calls would take {duration(LEAST_CALLS * projected)}, the cell {duration(seconds)}"
            )
    return kept, left_out
