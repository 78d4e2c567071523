"""Temporarily replaces PyTorch's own scaled_dot_product_attention."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.jit import _builtins

from ..errors import InvalidError, RefusedError
from .recomputing import Checkpoints
from .sdpa import sdpa
from .strictness import Strictness, not_computed
from .taking import refusal

_functional = torch.nn.functional
_lock = threading.Lock()
_entered = 0  # open blocks, in all threads
_theirs: Any = None  # the function that was there when the first of them was entered
_replaced: Any = None  # the function that they installed


class Replacement:
    """Counts the calls of a block: how many Regard computed, and why others were handed back to PyTorch.

    Calls in graphs made by torch.compile are not counted.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.computed = 0
        self.handed_back: Counter[str] = Counter()  # by reason

    def __repr__(self) -> str:
        return f"Replacement(computed={self.computed}, handed_back={dict(self.handed_back)})"


class _Thread:
    # Numbers, which are guards of compiled code.
    contexts = 0  # open ones that were entered in this thread
    strict = 0  # how many of them are strict
    recorded = 0  # how many of them are around functions that backward calls again, with gradients

    def __init__(self) -> None:
        self.blocks: list[Replacement] = []

    def add(self, block: Replacement, recorded: bool, more: int) -> None:
        self.contexts += more
        self.strict += more * block.strict
        self.recorded += more * recorded
        if more > 0:
            self.blocks.append(block)
        else:
            self.blocks.remove(block)


class _Here(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()


_here = _Here()
_of_backward: ContextVar[_Thread] = ContextVar("regard.torch.replacing")  # of the thread that called it


@contextmanager
def replace_sdpa(*, strict: bool = False) -> Iterator[Replacement]:
    """A context in which torch.nn.functional.scaled_dot_product_attention is `sdpa`: in the thread that entered it, and
    in the backward pass of this thread's computations.

    Calls that `sdpa` cannot handle fall back to the previous function: among them nested tensors and
    other subclasses of Tensor, and gradients that Regard does not compute. Names that were imported from
    torch.nn.functional earlier are not replaced. If another library replaces the function within the block, its
    replacement stays. Calls that Regard computes have no second derivatives.

    strict: a call that would fall back raises RefusedError with the reason. So does nn.MultiheadAttention with
    need_weights=True, which computes attention itself. PyTorch's fused layers for inference are switched off.

    Yields a `Replacement`, which counts the calls: how many Regard computed, and why others were handed back.

    Raises nothing itself.
    """
    block = Replacement(strict)
    with _within(_here.thread, block):
        yield block


@contextmanager
def _within(thread: _Thread, block: Replacement, recorded: bool = False) -> Iterator[None]:
    _of_backward.set(_here.thread)
    _count(thread, block, recorded, 1)
    try:
        yield
    finally:  # possibly in another thread
        _count(thread, block, recorded, -1)


def _count(thread: _Thread, block: Replacement, recorded: bool, more: int) -> None:
    global _entered, _theirs, _replaced
    with _lock:
        if not _entered:
            _theirs = _functional.scaled_dot_product_attention
            _replaced = _functional.scaled_dot_product_attention = _replacement(_theirs)
            _checkpoints.on()
        _entered += more
        thread.add(block, recorded, more)
        if block.strict:
            _strictness.count(more)
        if not _entered:
            _checkpoints.off()
            if _functional.scaled_dot_product_attention is _replaced:
                _functional.scaled_dot_product_attention = _theirs


def _again(function: Any) -> Any:
    """Wraps a checkpoint's function, so that it enters the block again when forward or backward calls it."""
    blocks = _current().blocks
    if not blocks:
        return function
    block = blocks[-1]

    @wraps(function)
    def again(*arguments: Any, **options: Any) -> Any:
        with _within(_here.thread, block, recorded=True):
            return function(*arguments, **options)

    again.enters_block = True  # type: ignore[attr-defined]
    return again


@contextmanager
def _outside() -> Iterator[None]:
    """Runs with the function that is there while no block is open."""
    thread = _current()
    contexts, thread.contexts = thread.contexts, 0
    try:
        yield
    finally:
        thread.contexts = contexts


def _current() -> _Thread:
    """This thread or, in a thread of autograd, the one that called backward, whose context PyTorch keeps there."""
    thread = _here.thread
    if thread.contexts or torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1:
        return thread
    context = torch._C._get_obj_in_tls("context") if torch._C._is_key_in_tls("context") else None
    return thread if context is None else context.get(_of_backward, thread)


_checkpoints = Checkpoints(_again, _outside)
_strictness = Strictness(lambda: bool(_current().strict))


@lru_cache(maxsize=8)
def _replacement(theirs: Any) -> Any:
    """The same function for the same `theirs`: compiled code depends on it, and other libraries may keep it."""

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
        thread = _current()
        if not thread.contexts:
            return theirs(*given, **options)  # type: ignore[no-any-return]
        if not torch.compiler.is_compiling() and torch._C._is_torch_function_mode_enabled():
            return torch.overrides.handle_torch_function(replaced, given[:4], *given, **options)
        unknown = [name for name in options if name not in ("scale", "enable_gqa")]
        why = f"{', '.join(unknown)} is not a known argument" if unknown else None
        why = why or refusal(query, key, value, attn_mask, dropout_p, thread.recorded > 0)
        if why is None:
            try:
                result: Tensor = sdpa(*given, **options)
            except (InvalidError, RefusedError) as error:  # PyTorch may accept the call, or raises its own error
                why = str(error)
            else:
                if not torch.compiler.is_compiling():
                    thread.blocks[-1].computed += 1
                return result
        if thread.strict:
            raise not_computed(why)
        if not torch.compiler.is_compiling():
            thread.blocks[-1].handed_back[why] += 1
        return theirs(*given, **options)  # type: ignore[no-any-return]

    return replaced


# The replacement of PyTorch's own function. It is pickled by this name; TorchScript compiles it to the operator.
scaled_dot_product_attention = _replacement(_functional.scaled_dot_product_attention)
scaled_dot_product_attention.__name__ = scaled_dot_product_attention.__qualname__ = "scaled_dot_product_attention"
_builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")
