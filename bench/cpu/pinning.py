"""Threads that stay where they are while they are measured.

On two cores Linux often wakes a worker on the core of the thread that woke it, although the other one is idle: a call
of a few milliseconds then takes twice as long in one round and not in the next, whichever library runs it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def one_core_each(threads: int) -> Iterator[None]:
    """With two threads: this one on one core, the worker of every library's pool on the other. Else nothing.

    With more, there is no telling which workers belong to one pool. Enter it when all workers have been started.
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
