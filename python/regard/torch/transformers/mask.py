"""A mask as models pass it from where it is made to their layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

OWN = ("options", "shape", "dtype", "write", "written")
OPERATORS = ("iter", "len", "bool", "neg", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Mask:
    """Which keys queries see: options of a call for our attention, or booleans if no options express it (None).

    A model that inspects it, or derives another mask from it, finds the same tensor as with eager attention, which
    every model can handle: numbers of `dtype`, 0 where a query sees a key, otherwise the smallest one.

    shape: [b, 1, q, kv].
    """

    def __init__(
        self,
        options: dict[str, Any] | None,
        booleans: Callable[[], Tensor],
        shape: Sequence[int],
        dtype: torch.dtype,
    ) -> None:
        self.options, self.shape, self.dtype = options, torch.Size(shape), dtype
        self.write = booleans
        self.written: Tensor | None = booleans() if options is None else None

    def booleans(self) -> Tensor:
        if self.written is None:
            self.written = self.write()
        return self.written

    def numbers(self) -> Tensor:
        seen, smallest = self.booleans(), torch.finfo(self.dtype).min
        return torch.zeros(seen.shape, dtype=self.dtype, device=seen.device).masked_fill(~seen, smallest)

    def to(self, *arguments: Any, **named: Any) -> Mask | Tensor:
        """Layers may be on different devices."""
        if any(isinstance(argument, torch.dtype) for argument in (*arguments, *named.values())):
            return self.numbers().to(*arguments, **named)
        options = self.options and {
            name: x.to(*arguments, **named) if isinstance(x, Tensor) else x for name, x in self.options.items()
        }
        return Mask(options, lambda: self.booleans().to(*arguments, **named), self.shape, self.dtype)

    def __getitem__(self, index: Any) -> Mask | Tensor:
        """A slice along its axes is a mask again."""
        if not (isinstance(index, tuple) and len(index) == 4 and all(isinstance(x, slice) for x in index)):
            return self.numbers()[index]
        whole = self.booleans()
        part = whole[index]
        return self if part.shape == whole.shape else Mask(None, lambda: part, part.shape, self.dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in OWN:  # copy and pickle look these up before there are attributes
            raise AttributeError(name)
        return getattr(self.numbers(), name)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return function(*tree_map(as_numbers, arguments), **tree_map(as_numbers, named or {}))

    __hash__ = object.__hash__


def as_numbers(value: Any) -> Any:
    return value.numbers() if isinstance(value, Mask) else value


def operator_of(name: str) -> Callable[..., Any]:
    def applied(self: Mask, *arguments: Any) -> Any:
        return getattr(self.numbers(), name)(*map(as_numbers, arguments))

    return applied


# Python looks up operators in the class, bypassing __getattr__. Masks are compared by element, like tensors.
for _name in (*OPERATORS, *COMPARISONS):
    setattr(Mask, f"__{_name}__", operator_of(f"__{_name}__"))
