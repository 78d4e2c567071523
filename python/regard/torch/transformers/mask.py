"""A mask as options of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map


class Mask:
    """The options that say it. Models hand it from where it is made to their layers; to one that looks into it, or
    makes another mask of it, it is the booleans that it stands for."""

    def __init__(self, options: dict[str, Any], booleans: Callable[[], Tensor]) -> None:
        self.options, self.booleans = options, booleans

    def to(self, *arguments: Any, **named: Any) -> Mask | Tensor:
        """Layers may lie on different devices."""
        if any(isinstance(argument, torch.dtype) for argument in (*arguments, *named.values())):
            return self.booleans().to(*arguments, **named)
        moved = {name: x.to(*arguments, **named) if isinstance(x, Tensor) else x for name, x in self.options.items()}
        return Mask(moved, lambda: self.booleans().to(*arguments, **named))

    def __getitem__(self, index: Any) -> Tensor:
        return self.booleans()[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("options", "booleans"):  # such as copies ask for before there are any
            raise AttributeError(name)
        return getattr(self.booleans(), name)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        def plain(value: Any) -> Any:
            return value.booleans() if isinstance(value, Mask) else value

        return function(*tree_map(plain, arguments), **tree_map(plain, named or {}))
