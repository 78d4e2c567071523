"""Keys that each query chose, as booleans, and masks limited to them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InvalidError
from .mask import Mask


def keys_of_indices(indices: Tensor, keys: int) -> Tensor:
    """indices: int [b, q, n], each from 0 to keys - 1. The result is [b, 1, q, keys], for all heads."""
    if indices.is_floating_point() or indices.is_complex():
        raise InvalidError(f"indices is {indices.dtype}; it must be an integer type")
    nothing = indices.new_zeros((*indices.shape[:2], keys), dtype=torch.bool)
    chosen: Tensor = nothing.scatter(-1, indices.long(), True)
    return chosen.unsqueeze(1)


def keys_of_blocks(block_indices: Tensor, size: int, keys: int, heads: int) -> Tensor:
    """block_indices: [b, groups of heads, q, n], -1 where there are fewer. The result is [b, heads, q, keys]."""
    blocks = -(-keys // size)
    nothing = block_indices.new_zeros((*block_indices.shape[:3], blocks + 1), dtype=torch.bool)
    chosen = nothing.scatter(-1, block_indices.masked_fill(block_indices < 0, blocks), True)[..., :blocks]
    of_groups: Tensor = chosen.repeat_interleave(size, -1)[..., :keys]
    return of_groups.repeat_interleave(heads // block_indices.shape[1], 1)


def limited(mask: Mask | Tensor | None, seen: Tensor) -> Tensor:
    """The mask, limited to keys that are also `seen`."""
    if mask is None:
        return seen
    if isinstance(mask, Mask):
        mask = mask.booleans()
    return mask & seen if mask.dtype == seen.dtype else mask.masked_fill(~seen, float("-inf"))
