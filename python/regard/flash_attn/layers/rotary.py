"""Rotary embeddings with gradients, as in flash_attn.layers.rotary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...torch.applied import applied
from ..ops.triton.rotary import apply_rotary

_Part = tuple[Any, tuple[Tensor, Tensor]]  # which heads of a tensor (None: all of it), and cos and sin for them


def _rotate_parts(out: Tensor, parts: list[_Part], how: dict[str, Any], conjugate: bool = False) -> Tensor:
    """In place."""
    for place, (cos, sin) in parts:
        part = out if place is None else out[:, :, place]
        apply_rotary(part, cos, sin, **how, inplace=True, conjugate=conjugate)
    return out


class _Rotate(torch.autograd.Function):
    """Rotates parts of a tensor; backward rotates them back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inplace: bool, parts: list[_Part], how: dict[str, Any]) -> Tensor:
        ctx.places = [place for place, _ in parts]
        ctx.numbers = {name: value for name, value in how.items() if not isinstance(value, Tensor)}
        ctx.names = [name for name in how if name not in ctx.numbers]
        ctx.save_for_backward(*[table for _, tables in parts for table in tables], *[how[name] for name in ctx.names])
        if not inplace:
            return _rotate_parts(x.clone(), parts, how)
        if _is_part_of_many(x):
            _rotate_parts(x.data, parts, how)  # hidden from autograd, which would refuse the other parts from here on
        else:
            _rotate_parts(x, parts, how)
            if not _is_leaf(x):
                ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        parts = [(place, (next(saved), next(saved))) for place in ctx.places]
        how = ctx.numbers | dict(zip(ctx.names, saved))
        return _rotate_parts(grads[0].clone(), parts, how, conjugate=True), None, None, None


# Autograd forbids in-place changes of leaves, and of parts of unbind, split or chunk. Rotated in place, these keep
# their previous gradient function: the result, which shares their memory, has the new one, as in flash_attn.


def _is_leaf(x: Tensor) -> bool:
    return x.is_leaf and x.requires_grad


def _is_part_of_many(x: Tensor) -> bool:
    autograd = torch._C._autograd
    return x._is_view() and autograd._get_creation_meta(x) == autograd.CreationMeta.MULTI_OUTPUT_NODE


def _rotated(x: Tensor, inplace: bool, parts: list[_Part], how: dict[str, Any]) -> Tensor:
    if not torch.compiler.is_compiling():
        rotated: Tensor = _Rotate.apply(x, inplace, parts, how)
        return rotated
    # Graphs lose track of the tensors that a Function changes, so there the operators are recorded one by one.
    if inplace and not _is_leaf(x):
        return _rotate_parts(x, parts, how)
    rotated = _rotate_parts(x.clone(), parts, how)
    if inplace:
        with torch.no_grad():
            x.copy_(rotated)
    return rotated


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

    cos, sin: [positions, rotated / 2], which get no gradients. interleaved: pairs (0, 1), (2, 3) ...; otherwise the two
    halves of the rotated dimensions. seqlen_offsets: where each sequence begins, one number or an int tensor [b].

    inplace: changes x. If x is a leaf that requires a gradient, or a part of unbind, split or chunk, continue with the
    result, which has the gradient. torch.compile refuses such parts.
    """
    how = {
        "interleaved": interleaved,
        "seqlen_offsets": seqlen_offsets,
        "cu_seqlens": cu_seqlens,
        "max_seqlen": max_seqlen,
    }
    return _rotated(x, inplace, [(None, (cos, sin))], how)


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
    places: tuple[Any, Any] = (0, 1)
    if qkv.dim() == 4:
        if num_heads_q is None:
            raise ValueError("qkv has 4 dimensions, so num_heads_q must say how many of its heads are queries")
        of_k, rest = divmod(qkv.shape[2] - num_heads_q, 2)
        if num_heads_q < 0 or of_k < 0 or rest:
            raise ValueError(
                f"qkv has {qkv.shape[2]} heads and num_heads_q is {num_heads_q}; the rest must be as many of K as of V"
            )
        places = slice(0, num_heads_q), slice(num_heads_q, num_heads_q + of_k)
    elif qkv.dim() != 5 or qkv.shape[2] != 3:
        raise ValueError(f"qkv has shape {list(qkv.shape)}; it must be [b, s, 3, h, d] or [b, s, hq + 2 hk, d]")
    elif num_heads_q not in (None, qkv.shape[3]):
        raise ValueError(f"num_heads_q is {num_heads_q} and qkv has {qkv.shape[3]} heads of Q: leave it out")
    of_keys = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    how = {"interleaved": interleaved, "seqlen_offsets": seqlen_offsets}
    return _rotated(qkv, True, [(places[0], (cos, sin)), (places[1], of_keys)], how)


def apply_rotary_emb_kv_(
    kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, seqlen_offsets: int | Tensor = 0
) -> Tensor:
    """Rotates K of a packed tensor [b, s, 2, h, d] in place."""
    if kv.dim() != 5 or kv.shape[2] != 2:
        raise ValueError(f"kv has shape {list(kv.shape)}; it must be [b, s, 2, h, d]")
    how = {"interleaved": interleaved, "seqlen_offsets": seqlen_offsets}
    return _rotated(kv, True, [(0, (cos, sin))], how)


ApplyRotaryEmb = applied(
    "ApplyRotaryEmb", apply_rotary_emb, "x cos sin interleaved inplace seqlen_offsets cu_seqlens max_seqlen"
)
ApplyRotaryEmbQKV_ = applied(
    "ApplyRotaryEmbQKV_", apply_rotary_emb_qkv_, "qkv cos sin cos_k sin_k interleaved seqlen_offsets num_heads_q"
)
ApplyRotaryEmbKV_ = applied("ApplyRotaryEmbKV_", apply_rotary_emb_kv_, "kv cos sin interleaved seqlen_offsets")


class RotaryEmbedding(torch.nn.Module):
    """Rotates Q and K by their positions: by base ** (-i / dim) per position in pair i, as in RoFormer.

    With scale_base, pairs also grow (Q) and shrink (K) with the position, as in XPos.
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
        [b, s, 2, hk, d], qkv is q [b, s, hq, d] and both are returned.

        seqlen_offset: the position of the first token, for all or int [b]; in the latter case max_seqlen says how many
        positions there can be.
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
