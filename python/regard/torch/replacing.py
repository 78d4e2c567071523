"""PyTorch's own scaled_dot_product_attention, replaced for a while."""

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
_entered = 0  # blocks that are open, in all threads
_theirs: Any = None  # what was there when the first of them was entered
_replaced: Any = None  # what they put there


class Replacement:
    """What became of the calls of a block: how many were computed by Regard, and why others went to PyTorch.

    Calls in graphs that torch.compile made are not counted.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.computed = 0
        self.handed_back: Counter[str] = Counter()  # by the reason

    def __repr__(self) -> str:
        return f"Replacement(computed={self.computed}, handed_back={dict(self.handed_back)})"


class _Thread:
    # Numbers, which compiled code checks before it runs.
    contexts = 0  # that were entered in this thread, and are open
    strict = 0  # of them
    recorded = 0  # those around functions that are called again in backward, with gradients

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
    """Within it, torch.nn.functional.scaled_dot_product_attention is `sdpa`, in the thread that entered it, and in
    backward of what this thread computed.

    What `sdpa` refuses still goes to what was there before; so do nested tensors and other subclasses of Tensor,
    gradients that there are not here, and calls by a name that was imported from torch.nn.functional before. What
    another library puts there within the block stays. There are no second derivatives of what went here.

    strict: a call that would go to PyTorch raises RefusedError, which says why. So does nn.MultiheadAttention with
    need_weights=True, which computes attention by itself, and PyTorch's fused layers for inference are off.

    Gives a `Replacement`, which counts.
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
    finally:  # in another thread, maybe
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
    """A function of a checkpoint, as it is called in forward or backward."""
    blocks = _current().blocks
    if not blocks:
        return function
    block = blocks[-1]

    @wraps(function)
    def again(*arguments: Any, **options: Any) -> Any:
        with _within(_here.thread, block, recorded=True):
            return function(*arguments, **options)

    return again


def _current() -> _Thread:
    """This thread, or, in one of autograd's, the one that called backward, whose context PyTorch keeps there."""
    thread = _here.thread
    if thread.contexts or torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1:
        return thread
    context = torch._C._get_obj_in_tls("context") if torch._C._is_key_in_tls("context") else None
    return thread if context is None else context.get(_of_backward, thread)


_checkpoints = Checkpoints(_again)
_strictness = Strictness(lambda: bool(_current().strict))


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
        thread = _current()
        if not thread.contexts:
            return theirs(*given, **options)  # type: ignore[no-any-return]
        if not torch.compiler.is_compiling() and torch._C._is_torch_function_mode_enabled():
            return torch.overrides.handle_torch_function(replaced, given[:4], *given, **options)
        unknown = [name for name in options if name not in ("scale", "enable_gqa")]
        why = f"{', '.join(unknown)} is not known here" if unknown else None
        why = why or refusal(query, key, value, attn_mask, dropout_p, thread.recorded > 0)
        if why is None:
            try:
                result: Tensor = sdpa(*given, **options)
            except (InvalidError, RefusedError) as error:  # which PyTorch may take, or else says in its own words
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


# That of PyTorch's own. Pickled it is this name, in whichever process; TorchScript makes the operator of it.
scaled_dot_product_attention = _replacement(_functional.scaled_dot_product_attention)
scaled_dot_product_attention.__name__ = scaled_dot_product_attention.__qualname__ = "scaled_dot_product_attention"
_builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")
