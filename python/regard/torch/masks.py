"""The bits of a mask that is a function, made once for many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..arrays import bits_by_torch, first_line
from ..errors import RefusedError, invalid, wrong_type
from ..words import count
from .block_masks import seen_places

_AT_ONCE = 1 << 24  # places of a mask that are held as booleans at a time


def mask(keep: Callable[..., Any], b: int, h: int, sq: int, sk: int, *, device: Any = None) -> Tensor:
    """The visibility bits (`bits=`) of a mask that is a function, for all layers and for both passes of a step.

        bits = regard.torch.mask(keep, b, 1, s, s, device="cuda")       # once
        o = regard.torch.attention(q, k, v, bits=bits)                  # in each layer

    keep(b, h, q_idx, kv_idx): as for `attention`, true where a query sees a key. b, h: how many sequences and query
    heads there are; 1 if keep does not distinguish them, so that all share the bits. sq, sk: the lengths. device: where
    the tensors that keep reads are; by default PyTorch's own default.

    PyTorch evaluates keep, so it may also call what `attention` refuses in a function, such as searchsorted. Indices
    have to lie within their tensors. The memory that this takes besides the result does not grow with the lengths.

    Returns uint32 [b, h, sq, ceil(sk / 32)].

    Raises InvalidError (a ValueError) for other sizes, and a tensor of several numbers from keep; TypeError if keep is
    not a function, or does not return booleans; RefusedError (a NotImplementedError) if it decides by the value of an
    index, or does something else that PyTorch cannot do for all places at once. What keep itself raises is passed on.
    """
    if not callable(keep):
        raise wrong_type(f"keep is of type {type(keep).__name__}; it must be a function of b, h, q_idx and kv_idx")
    b, h, sq, sk = (count(name, size, 0) for name, size in (("b", b), ("h", h), ("sq", sq), ("sk", sk)))
    bits = torch.zeros(b, h, sq, -(-sk // 32), dtype=torch.uint32, device=device)
    rows = max(1, _AT_ONCE // max(sk, 1))
    for batch in range(b if bits.numel() else 0):
        for head in range(h):
            for first in range(0, sq, rows):
                last = min(first + rows, sq)
                try:
                    seen = seen_places(
                        _checked(keep), batch, range(head, head + 1), range(first, last), sk, bits.device
                    )
                except RuntimeError as error:
                    _refuse_what_vmap_cannot_do(error)
                    raise
                bits[batch, head, first:last] = bits_by_torch(seen[0])
    return bits


def _checked(keep: Callable[..., Any]) -> Callable[..., Tensor]:
    """The same function, which returns a boolean for each place."""

    def seen(*place: Tensor) -> Tensor:
        found = keep(*place)
        if not isinstance(found, Tensor):
            raise wrong_type(
                f"keep returns an object of type {type(found).__name__}; it must return a tensor of booleans, made "
                "from b, h, q_idx and kv_idx"
            )
        if found.dtype != torch.bool:
            raise wrong_type(f"keep returns {found.dtype}; it must return booleans, true where a key is seen")
        if found.dim() > 0:
            raise invalid(
                f"keep returns a tensor of shape {list(found.shape)} for one query and key; return one boolean"
            )
        return found

    return seen


# Parts of PyTorch's messages, and what they mean here.
_BEYOND_VMAP = {
    "data-dependent control flow": "it decides by the value of an index, as if, and, or and not do; use torch.where, "
    "&, | and ~ instead",
    ".item()": "it makes a number of an index, as item() and int() do; use operations on tensors instead",
    "data pointer of Tensor": "it reads the memory of an index, as numpy() does; use operations of PyTorch instead",
}


def _refuse_what_vmap_cannot_do(error: RuntimeError) -> None:
    """Nothing for what keep itself has raised."""
    said = first_line(error)
    for part, why in _BEYOND_VMAP.items():
        if part in said:
            raise RefusedError(f"keep cannot be evaluated for all places at once: {why}") from error
    if said.startswith("vmap"):
        raise RefusedError(
            f"keep cannot be evaluated for all places at once; use other operations than the one of which PyTorch "
            f"says: {said}"
        ) from error
