"""The bits of a mask that is a function, made once for many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..arrays import bits_by_torch
from ..errors import wrong_type
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

    Raises InvalidError (a ValueError) for other sizes, TypeError if keep is not a function, or does not return
    booleans.
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
                seen = seen_places(keep, batch, range(head, head + 1), range(first, last), sk, bits.device)
                if seen.dtype != torch.bool:
                    raise wrong_type(f"keep returns {seen.dtype}; it must return booleans, true where a key is seen")
                bits[batch, head, first:last] = bits_by_torch(seen[0])
    return bits
