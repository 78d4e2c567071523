"""Pins threads to cores while they are measured.

On two cores, Linux often wakes a worker on the core of the thread that woke it, although the other core is idle: a call
of a few milliseconds then takes twice as long in one round but not in the next, whichever library runs it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def one_core_each(threads: int) -> Iterator[None]:
    """With two threads, pins this one to one core and the worker of each library's pool to the other.

    Otherwise it does nothing: with more threads, it is unknown which workers belong to the same pool. Enter it once all
    workers have started.
    """
    cores = sorted(os.sched_getaffinity(0))
    if threads != 2 or len(cores) != 2:
        yield
        return
    workers = [tid for task in Path("/proc/self/task").iterdir() if (tid := int(task.name)) != os.getpid()]
    _pin(os.getpid(), {cores[0]})
    for worker in workers:
        _pin(worker, {cores[1]})
    try:
        yield
    finally:
        for task in (os.getpid(), *workers):
            _pin(task, set(cores))


def _pin(task: int, cores: set[int]) -> None:
    with contextlib.suppress(ProcessLookupError):  # a worker may have ended
        os.sched_setaffinity(task, cores)
