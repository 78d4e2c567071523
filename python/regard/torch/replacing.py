"""PyTorch's own scaled_dot_product_attention, replaced for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from operator import index
from typing import Any

import torch
from torch import Tensor

from ..arrays import NAMES
from ..errors import InvalidError, RefusedError
from ..planning import plan
from .autograd import is_recorded
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

    What `sdpa` refuses still goes to what was there before; so do nested tensors, gradients that there are not here,
    and calls by a name that was imported from torch.nn.functional before. What another library puts there
    within the block stays. There are no second derivatives of what went here.
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

    def replaced(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Tensor:
        given = query, key, value, attn_mask, dropout_p, is_causal
        if _here.thread.contexts and is_taken(query, key, value, attn_mask, dropout_p):
            try:
                return sdpa(*given, **options)
            except (InvalidError, RefusedError):  # which PyTorch may take, or else says in its own words
                pass
        result: Tensor = theirs(*given, **options)
        return result

    return replaced


def is_taken(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    """Whether the library solves such a problem, with its gradients where it is recorded: a graph is made without a
    run that would tell, and gradients are asked for when it is too late."""
    if query.is_nested or query.dtype not in FLOATS or query.device.type not in ("cpu", "cuda"):
        return False
    if min(query.dim(), key.dim(), value.dim()) < 2:
        return False
    recorded = is_recorded(query, key, value, {"bias": mask})
    heads = query.shape[-3] if query.dim() > 2 else 1
    sizes = index(heads), index(query.shape[-1]), index(value.shape[-1])  # which are numbers, where they were symbols
    of_mask = (None, False) if mask is None else (mask.dtype, recorded and mask.requires_grad)
    dropout = 0.0 if dropout_p == 0 else 0.5 if 0 < dropout_p < 1 else 1.0  # one for all, as it may be a symbol, too
    pass_ = "bwd" if recorded else "fwd"
    return bool(is_solved(pass_, query.dtype, query.device.type, *sizes, dropout, *of_mask))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_solved(*asked: Any) -> bool:
    return _solved(*asked)


@lru_cache(maxsize=1024)
def _solved(
    pass_: str,
    dtype: torch.dtype,
    device: str,
    heads: int,
    d: int,
    dv: int,
    dropout: float,
    mask: torch.dtype | None,
    learned: bool,
) -> bool:
    words = ""
    if mask is not None:
        words = "bits" if mask == torch.bool else "bias=bh dbias" if learned else "bias=bh"
        if mask == torch.float32:
            words += " bias_type=fp32"
    if dropout:
        words += f" dropout={dropout}"
    word = next(word for word, name in NAMES.items() if getattr(torch, name) == dtype)
    try:
        plan(f"{pass_} {word} b=1 h={heads} s=1 d={d} dv={dv} {words}", "cuda" if device == "cuda" else None)
    except (InvalidError, RefusedError):
        return False
    return True
