"""Activation checkpoints: calls that were replaced in forward are also replaced in the recompute.

torch.utils.checkpoint keeps a function and calls it again in backward, which on GPUs happens in autograd's threads, and
may happen after the block has ended. Here the function that it keeps is one that enters the block again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils import checkpoint

Wrap = Callable[[Any], Any]  # a function, to one that enters the block again

# Where checkpoints keep their function: with use_reentrant=True, and with False.
_KEEPERS = (("CheckpointFunction", "forward"), ("_CheckpointFrame", "__init__"))


class Checkpoints:
    """While it is on, functions that checkpoints keep go through `wrap`."""

    def __init__(self, wrap: Wrap) -> None:
        self._wrap = wrap
        self._before: list[tuple[Any, str, Any]] = []

    def on(self) -> None:
        for owner, name in _KEEPERS:
            if hasattr(checkpoint, owner):  # else PyTorch keeps it elsewhere, and compares what is recomputed
                keeper = getattr(checkpoint, owner)
                self._before.append((keeper, name, keeper.__dict__[name]))
                setattr(keeper, name, self._keeping(keeper.__dict__[name]))

    def off(self) -> None:
        while self._before:
            setattr(*self._before.pop())

    def _keeping(self, method: Any) -> Any:
        static = isinstance(method, staticmethod)
        inner = method.__func__ if static else method

        def keep(self_or_ctx: Any, function: Any, *arguments: Any, **options: Any) -> Any:
            return inner(self_or_ctx, self._wrap(function), *arguments, **options)

        return staticmethod(keep) if static else keep
