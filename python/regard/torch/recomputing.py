"""Activation checkpoints: the recomputation replaces the same calls that forward replaced.

torch.utils.checkpoint keeps a function and calls it again in backward, which on GPUs happens in autograd's threads, and
may happen after the block has ended. The function that it keeps here enters the block again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch.utils import checkpoint

Wrap = Callable[[Any], Any]  # maps a function to one that enters the block again

# Where checkpoints keep their function: with use_reentrant=True, and with False.
_KEEPERS = (("CheckpointFunction", "forward"), ("_CheckpointFrame", "__init__"))


class Checkpoints:
    """While it is on, functions that checkpoints keep go through `wrap`, and those kept earlier are called again inside
    `outside`: with use_reentrant=True PyTorch does not notice if a recomputation differs from forward."""

    def __init__(self, wrap: Wrap, outside: Callable[[], AbstractContextManager[None]]) -> None:
        self._wrap, self._outside = wrap, outside
        self._before: list[tuple[Any, str, Any]] = []

    def on(self) -> None:
        replaced = [(*keeper, self._keeping) for keeper in _KEEPERS]
        replaced.append(("CheckpointFunction", "backward", self._recomputing))
        for name_of_owner, name, by in replaced:
            owner = getattr(checkpoint, name_of_owner, None)
            if owner is not None:  # otherwise PyTorch keeps it elsewhere, and compares the recomputed tensors
                method = owner.__dict__[name]
                self._before.append((owner, name, method))
                setattr(owner, name, by(method))

    def off(self) -> None:
        while self._before:
            setattr(*self._before.pop())

    def _keeping(self, method: Any) -> Any:
        static = isinstance(method, staticmethod)
        inner = method.__func__ if static else method

        def keep(self_or_ctx: Any, function: Any, *arguments: Any, **options: Any) -> Any:
            return inner(self_or_ctx, self._wrap(function), *arguments, **options)

        return staticmethod(keep) if static else keep

    def _recomputing(self, method: Any) -> Any:
        def backward(ctx: Any, *gradients: Any) -> Any:
            if getattr(ctx.run_function, "enters_block", False):
                return method.__func__(ctx, *gradients)
            with self._outside():
                return method.__func__(ctx, *gradients)

        return staticmethod(backward)
