"""Rotary embeddings with gradients, as flash_attn.layers.rotary has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..ops.triton.rotary import apply_rotary


class _Rotate(torch.autograd.Function):
    """Rotates; backward rotates back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, how: dict[str, Any], inplace: bool) -> Tensor:
        ctx.tables, ctx.how = (cos, sin), how
        if inplace:
            ctx.mark_dirty(x)
        return apply_rotary(x, cos, sin, **how, inplace=inplace)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.tables
        return apply_rotary(grads[0], cos, sin, **ctx.how, conjugate=True), None, None, None, None


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """x with its first dimensions rotated: [b, s, h, d], or [tokens, h, d] with cu_seqlens.

    cos, sin: [positions, rotated / 2], which get no gradients. interleaved: pairs (0, 1), (2, 3) ...; else the two
    halves of what is rotated. seqlen_offsets: where each sequence begins, one number or an int tensor [b].
    """
    how = {
        "interleaved": interleaved,
        "seqlen_offsets": seqlen_offsets,
        "cu_seqlens": cu_seqlens,
        "max_seqlen": max_seqlen,
    }
    rotated: Tensor = _Rotate.apply(x, cos, sin, how, inplace)  # type: ignore[no-untyped-call]
    return rotated


apply_rotary_emb_func = apply_rotary_emb


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Each pair (a, b) becomes (-b, a)."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_emb_torch(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """x [b, s, h, d] rotated in its own precision. cos, sin: [s, rotated / 2] or [b, s, rotated / 2]."""
    rotated = 2 * cos.shape[-1]
    double = (lambda t: t.repeat_interleave(2, dim=-1)) if interleaved else (lambda t: torch.cat((t, t), dim=-1))
    c, s = (double(table).unsqueeze(-2) for table in (cos, sin))
    part = x[..., :rotated]
    return torch.cat((part * c + rotate_half(part, interleaved) * s, x[..., rotated:]), dim=-1)


def apply_rotary_emb_qkv_(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    cos_k: Tensor | None = None,
    sin_k: Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
    num_heads_q: int | None = None,
) -> Tensor:
    """Rotates Q and K of a packed tensor in place: [b, s, 3, h, d], or [b, s, hq + 2 hk, d] with num_heads_q."""
    if qkv.dim() == 4 and num_heads_q is None:
        raise ValueError("qkv has 4 dimensions, so num_heads_q must say how many of its heads are queries")
    if num_heads_q is None:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    else:
        of_k = (qkv.shape[2] - num_heads_q) // 2
        q, k = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + of_k]
    return _rotate_parts(
        qkv,
        [(q, cos, sin), (k, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k)],
        interleaved,
        seqlen_offsets,
    )


def apply_rotary_emb_kv_(
    kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, seqlen_offsets: int | Tensor = 0
) -> Tensor:
    """Rotates K of a packed tensor [b, s, 2, h, d] in place."""
    return _rotate_parts(kv, [(kv[:, :, 0], cos, sin)], interleaved, seqlen_offsets)


def _rotate_parts(
    packed: Tensor, parts: list[tuple[Tensor, Tensor, Tensor]], interleaved: bool, seqlen_offsets: int | Tensor
) -> Tensor:
    for part, cos, sin in parts:
        apply_rotary_emb(part, cos, sin, interleaved, inplace=True, seqlen_offsets=seqlen_offsets)
    return packed
