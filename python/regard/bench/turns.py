"""Contestants take turns: in each round, each of them makes some calls on each cell."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

SAMPLE_MS = 2  # the same as in `regard bench` without peers
REST_SECONDS = 0.02  # the workers of one library spin for a while, on the cores that the next one needs


def sample(call: Callable[[], Any], calls: int, device: str) -> float:
    """Milliseconds per call, the mean over `calls`."""
    if device == "cpu":
        time.sleep(REST_SECONDS)
    else:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e3


def calls_per_sample(call: Callable[[], Any], device: str) -> int:
    once = max(sample(call, 1, device), 1e-6)
    return int(min(max(math.ceil(SAMPLE_MS / once), 1), 10000))


def rotated(names: list[str], rounds: int) -> Iterator[list[str]]:
    """Runs all rounds, each of which begins with a different contestant."""
    for turn in range(rounds):
        first = turn % len(names)
        yield names[first:] + names[:first]
