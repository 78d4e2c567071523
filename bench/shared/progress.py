"""The progress of a benchmark."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def duration(seconds: float) -> str:
    """An estimated duration as text: two digits are enough."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """Yields the items; prints each one's name and the estimated time left to stderr."""
    start = time.monotonic()
    for done, item in enumerate(items):
        left = (time.monotonic() - start) / done * (len(items) - done) if done else None
        about = "" if left is None else f" (about {duration(left)} left)"
        print(f"[{done + 1}/{len(items)}] {name(item)}{about}", file=sys.stderr, flush=True)
        yield item
