"""FlashInfer's masks, one flat list of booleans for all sequences, as the bits of each sequence."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor

from ..arrays import bits_by_torch
from ..errors import RefusedError, invalid
from ..torch.tensors import refuse_without_strides


def flat_mask(custom_mask: Any, packed_custom_mask: Any, counts: numpy.ndarray) -> Tensor | None:
    """One boolean for each query and key of each sequence; counts: how many each sequence has."""
    total = int(counts.sum())
    if packed_custom_mask is not None:
        return _unpacked(packed_custom_mask, counts)
    if custom_mask is None:
        return None
    refuse_without_strides(custom_mask=custom_mask)
    if custom_mask.dtype != torch.bool or custom_mask.numel() != total:
        raise invalid(
            f"custom_mask is {custom_mask.dtype} of shape {list(custom_mask.shape)}; it must be torch.bool, with one "
            f"value for each query and key of each sequence, {total} in all"
        )
    found: Tensor = custom_mask.reshape(-1)
    return found


def _unpacked(packed: Any, counts: numpy.ndarray) -> Tensor:
    """A packed mask does not say whether sequences begin a new byte: all but the last must end with a whole one."""
    refuse_without_strides(packed_custom_mask=packed)
    total = int(counts.sum())
    if packed.dtype != torch.uint8 or packed.dim() != 1 or packed.shape[0] < -(-total // 8):
        raise invalid(
            f"packed_custom_mask is {packed.dtype} of shape {list(packed.shape)}; it must be one list of torch.uint8, "
            f"a bit for each query and key of each sequence, {total} in all"
        )
    if (counts[:-1] % 8).any():
        raise RefusedError(
            "packed_custom_mask has sequences that end within a byte, and does not say where the next one begins: give "
            "custom_mask"
        )
    places = torch.arange(8, dtype=torch.uint8, device=packed.device)
    bits: Tensor = (packed[:, None] >> places) & 1
    return bits.flatten()[:total].bool()


def bits_of(mask: Tensor, queries: numpy.ndarray, keys: numpy.ndarray, sq: int, sk: int, device: Any) -> Tensor:
    """uint32 [b, 1, sq, ceil(sk/32)] from a flat mask."""
    mask = mask.to(device)
    rows, columns = (torch.from_numpy(n).to(device)[:, None, None] for n in (queries, keys))
    given = (torch.arange(sq, device=device)[:, None] < rows) & (torch.arange(sk, device=device) < columns)
    found: Tensor = bits_by_torch(torch.zeros_like(given).masked_scatter_(given, mask))
    return found[:, None]
