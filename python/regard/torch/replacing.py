"""PyTorch's own scaled_dot_product_attention, replaced for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .sdpa import sdpa
from .tensors import FLOATS

_functional = torch.nn.functional
_theirs = _functional.scaled_dot_product_attention
_lock = threading.Lock()
_contexts = 0  # that are open, in all threads


class _Here(threading.local):
    contexts = 0  # that are open in this thread


_here = _Here()


@contextmanager
def replace_sdpa() -> Iterator[None]:
    """Within it, torch.nn.functional.scaled_dot_product_attention is `sdpa`, in the thread that entered it.

    Nested tensors, and those of other types than float32, bfloat16 and float16 or neither in host memory nor on an
    NVIDIA GPU, still go to PyTorch's own. So do calls by a name that was imported from torch.nn.functional before.
    """
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(more: int) -> None:
    global _contexts
    with _lock:
        _contexts += more
        _here.contexts += more
        _functional.scaled_dot_product_attention = _replaced if _contexts else _theirs


def _replaced(query: Tensor, *arguments: Any, **options: Any) -> Tensor:
    ours = _here.contexts and query.dtype in FLOATS and query.device.type in ("cpu", "cuda") and not query.is_nested
    return (sdpa if ours else _theirs)(query, *arguments, **options)
