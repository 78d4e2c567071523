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
    rotated: Tensor = _Rotate.apply(x, cos, sin, how, inplace)
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


class RotaryEmbedding(torch.nn.Module):
    """Rotates Q and K by their positions: by base ** (-i / dim) per position in pair i, as RoFormer has it.

    With scale_base, pairs also grow (Q) and shrink (K) with the position, as XPos has it.
    """

    inv_freq: Tensor
    scale: Tensor | None

    def __init__(
        self,
        dim: int,
        base: float = 10000.0,
        interleaved: bool = False,
        scale_base: float | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.dim, self.base, self.interleaved, self.scale_base = dim, float(base), interleaved, scale_base
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        even = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
        scale = None if scale_base is None else (even + 0.4 * dim) / (1.4 * dim)
        self.register_buffer("scale", scale, persistent=False)
        self._seq_len_cached = 0
        self._cos_cached: Tensor | None = None
        self._sin_cached: Tensor | None = None
        self._cos_k_cached: Tensor | None = None
        self._sin_k_cached: Tensor | None = None

    def _compute_inv_freq(self, device: Any = None) -> Tensor:
        return self.base ** (-torch.arange(0, self.dim, 2, device=device, dtype=torch.float32) / self.dim)

    def _update_cos_sin_cache(self, seqlen: int, device: Any = None, dtype: torch.dtype | None = None) -> None:
        """Tables for that many positions, made in fp32 whatever type the module was cast to."""
        known = self._cos_cached
        fits = known is not None and seqlen <= self._seq_len_cached and (known.device, known.dtype) == (device, dtype)
        if fits and not (self.training and known is not None and known.is_inference()):
            return
        self._seq_len_cached = seqlen
        position = torch.arange(seqlen, device=device, dtype=torch.float32)
        fp32 = self.inv_freq.dtype == torch.float32
        angle = torch.outer(position, self.inv_freq if fp32 else self._compute_inv_freq(device))
        cos, sin = angle.cos(), angle.sin()
        if self.scale is None or self.scale_base is None:
            self._cos_cached, self._sin_cached = cos.to(dtype), sin.to(dtype)
            return
        power = self.scale.to(angle.device).float() ** ((position - seqlen // 2) / self.scale_base)[:, None]
        self._cos_cached, self._sin_cached = (cos * power).to(dtype), (sin * power).to(dtype)
        self._cos_k_cached, self._sin_k_cached = (cos / power).to(dtype), (sin / power).to(dtype)

    def forward(
        self,
        qkv: Tensor,
        kv: Tensor | None = None,
        seqlen_offset: int | Tensor = 0,
        max_seqlen: int | None = None,
        num_heads_q: int | None = None,
    ) -> Any:
        """Rotates in place: qkv [b, s, 3, h, d] (or [b, s, hq + 2 hk, d] with num_heads_q), or, with kv
        [b, s, 2, hk, d], qkv is q [b, s, hq, d] and both come back.

        seqlen_offset: the position of the first token, for all or int [b], for which max_seqlen says how many
        positions there may be.
        """
        if max_seqlen is not None:
            self._update_cos_sin_cache(max_seqlen, device=qkv.device, dtype=qkv.dtype)
        elif isinstance(seqlen_offset, int):
            self._update_cos_sin_cache(qkv.shape[1] + seqlen_offset, device=qkv.device, dtype=qkv.dtype)
        cos, sin = self._cos_cached, self._sin_cached
        if cos is None or sin is None:
            raise ValueError("seqlen_offset is a tensor, so max_seqlen must say how many positions there may be")
        cos_k, sin_k = (cos, sin) if self.scale is None else (self._cos_k_cached, self._sin_k_cached)
        if kv is None:
            return apply_rotary_emb_qkv_(qkv, cos, sin, cos_k, sin_k, self.interleaved, seqlen_offset, num_heads_q)
        q = apply_rotary_emb(qkv, cos, sin, self.interleaved, inplace=True, seqlen_offsets=seqlen_offset)
        assert cos_k is not None and sin_k is not None  # made with the others
        return q, apply_rotary_emb_kv_(kv, cos_k, sin_k, self.interleaved, seqlen_offset)
