"""Rotary embeddings using PyTorch's operators, on any device."""

from __future__ import annotations

import torch
from torch import Tensor


def _positions(x: Tensor, seqlen_offsets: int | Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """The row of cos and sin of each token: [s], [b, s], or [tokens] for packed sequences."""
    if cu_seqlens is None:
        place = torch.arange(x.shape[1], device=x.device)
        return place + (seqlen_offsets[:, None] if isinstance(seqlen_offsets, Tensor) else seqlen_offsets)
    token = torch.arange(x.shape[0], device=x.device)
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    sequence = sequence.clamp(max=cu_seqlens.shape[0] - 2)  # tokens after the last sequence
    start = seqlen_offsets[sequence] if isinstance(seqlen_offsets, Tensor) else seqlen_offsets
    return token - cu_seqlens[sequence] + start


def _rows(table: Tensor, positions: Tensor) -> Tensor:
    """[..., 1, dim/2] in fp32, for all heads."""
    return table[positions.clamp(max=table.shape[0] - 1)].float().unsqueeze(-2)


def apply_rotary(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    conjugate: bool = False,
) -> Tensor:
    """x with its first dimensions rotated, without autograd: [b, s, h, d], or [tokens, h, d] with cu_seqlens.

    cos, sin: [positions, rotated / 2]. interleaved: pairs (0, 1), (2, 3) ...; otherwise the two halves of the rotated
    dimensions. conjugate: rotates back.
    """
    if cu_seqlens is not None and max_seqlen is None:
        raise ValueError("cu_seqlens needs max_seqlen, the longest sequence")
    rotated = 2 * cos.shape[-1]
    if sin.shape != cos.shape or cos.dim() != 2:
        raise ValueError(
            f"cos has shape {list(cos.shape)} and sin {list(sin.shape)}; both must be [positions, rotated / 2]"
        )
    if rotated > x.shape[-1]:
        raise ValueError(f"cos and sin rotate {rotated} dimensions and x has {x.shape[-1]}: give smaller ones")
    longest = x.shape[1] if max_seqlen is None else max_seqlen
    last = longest + (0 if isinstance(seqlen_offsets, Tensor) else seqlen_offsets)
    if last > cos.shape[0]:
        raise ValueError(f"cos and sin have {cos.shape[0]} positions and the longest sequence needs {last}")

    positions = _positions(x, seqlen_offsets, cu_seqlens)
    c, s = _rows(cos, positions), _rows(sin, positions)
    if conjugate:
        s = -s
    out = x if inplace else x.clone()
    part = out[..., :rotated]
    half = rotated // 2  # by slices: autograd does not allow writing to parts of chunk
    halves = (part[..., ::2], part[..., 1::2]) if interleaved else (part[..., :half], part[..., half:])
    first, second = (numbers.float() for numbers in halves)
    turned = (first * c - second * s, first * s + second * c)  # both before the first is overwritten
    for place, numbers in zip(halves, turned):
        place.copy_(numbers)
    return out
