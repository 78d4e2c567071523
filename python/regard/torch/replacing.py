"""PyTorch's own scaled_dot_product_attention, replaced for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .sdpa import sdpa
from .tensors import FLOATS

_functional = torch.nn.functional
_lock = threading.Lock()
_contexts = 0  # that are open, in all threads
_theirs: Any = None  # what was there when the first of them was entered
_replaced: Any = None  # what they put there


class _Thread:
    contexts = 0  # that were entered in this thread, and are open


class _Here(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()


_here = _Here()


@contextmanager
def replace_sdpa() -> Iterator[None]:
    """Within it, torch.nn.functional.scaled_dot_product_attention is `sdpa`, in the thread that entered it.

    Nested tensors, and those of other types than float32, bfloat16 and float16 or neither in host memory nor on an
    NVIDIA GPU, still go to what was there before. So do calls by a name that was imported from torch.nn.functional
    before. What another library puts there within the block stays.
    """
    thread = _here.thread  # another may leave
    _count(thread, 1)
    try:
        yield
    finally:
        _count(thread, -1)


def _count(thread: _Thread, more: int) -> None:
    global _contexts, _theirs, _replaced
    with _lock:
        if not _contexts:
            _theirs = _functional.scaled_dot_product_attention
            _replaced = _functional.scaled_dot_product_attention = _replacement(_theirs)
        _contexts += more
        thread.contexts += more
        if not _contexts and _functional.scaled_dot_product_attention is _replaced:
            _functional.scaled_dot_product_attention = _theirs


@lru_cache(maxsize=8)
def _replacement(theirs: Any) -> Any:
    """The same for the same, as compiled code is made for it, and as another library may keep it and call it."""

    def replaced(query: Tensor, *arguments: Any, **options: Any) -> Tensor:
        ours = _here.thread.contexts and query.dtype in FLOATS and query.device.type in ("cpu", "cuda")
        return (sdpa if ours and not query.is_nested else theirs)(query, *arguments, **options)

    return replaced
