"""Attention without projections, as modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...arrays import bits_by_torch
from ...errors import invalid
from ..attend import attend
from ..flash_attn_interface import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from ..words import unpacked


class _Attention(torch.nn.Module):
    def __init__(self, causal: bool, softmax_scale: float | None, attention_dropout: float) -> None:
        super().__init__()
        self.causal, self.softmax_scale = causal, softmax_scale
        self.drop = torch.nn.Dropout(attention_dropout)

    def dropout_p(self) -> float:
        return self.drop.p if self.training else 0.0

    def is_causal(self, causal: bool | None) -> bool:
        return self.causal if causal is None else causal


class _FlashAttention(_Attention):
    alibi_slopes: Tensor | None

    def __init__(
        self,
        causal: bool,
        softmax_scale: float | None,
        attention_dropout: float,
        window_size: tuple[int, int],
        alibi_slopes: Tensor | None,
        deterministic: bool,
    ) -> None:
        super().__init__(causal, softmax_scale, attention_dropout)
        self.register_buffer("alibi_slopes", alibi_slopes, persistent=False)
        self.window_size, self.deterministic = window_size, deterministic

    def scores(self, causal: bool | None) -> dict[str, Any]:
        slopes = self.alibi_slopes
        return {
            "dropout_p": self.dropout_p(),
            "softmax_scale": self.softmax_scale,
            "causal": self.is_causal(causal),
            "window_size": self.window_size,
            "alibi_slopes": None if slopes is None else slopes.float(),  # casting a module casts its buffers
            "deterministic": self.deterministic,
        }


class FlashSelfAttention(_FlashAttention):
    """flash_attn_qkvpacked_func, or the same for packed sequences, with dropout while the module is training."""

    def __init__(
        self,
        causal: bool = False,
        softmax_scale: float | None = None,
        attention_dropout: float = 0.0,
        window_size: tuple[int, int] = (-1, -1),
        alibi_slopes: Tensor | None = None,
        deterministic: bool = False,
    ) -> None:
        super().__init__(causal, softmax_scale, attention_dropout, window_size, alibi_slopes, deterministic)

    def forward(
        self, qkv: Tensor, causal: bool | None = None, cu_seqlens: Tensor | None = None, max_seqlen: int | None = None
    ) -> Tensor:
        """qkv: [b, s, 3, h, d], or [tokens, 3, h, d] with cu_seqlens (int32 [b+1]) and max_seqlen.

        causal: overrides the module's. Returns [b, s, h, d] or [tokens, h, d].
        """
        refuse_half_of(cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        if cu_seqlens is None:
            o: Tensor = flash_attn_qkvpacked_func(qkv, **self.scores(causal))
        else:
            sequences: Any = (cu_seqlens, max_seqlen)
            o = flash_attn_varlen_qkvpacked_func(qkv, *sequences, **self.scores(causal))
        return o


class FlashCrossAttention(_FlashAttention):
    """flash_attn_kvpacked_func, or the same for packed sequences, with dropout while the module is training."""

    def __init__(
        self,
        causal: bool = False,
        softmax_scale: float | None = None,
        attention_dropout: float = 0.0,
        alibi_slopes: Tensor | None = None,
        window_size: tuple[int, int] = (-1, -1),
        deterministic: bool = False,
    ) -> None:
        super().__init__(causal, softmax_scale, attention_dropout, window_size, alibi_slopes, deterministic)

    def forward(
        self,
        q: Tensor,
        kv: Tensor,
        causal: bool | None = None,
        cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
        cu_seqlens_k: Tensor | None = None,
        max_seqlen_k: int | None = None,
    ) -> Tensor:
        """q: [b, sq, hq, d] and kv: [b, sk, 2, hk, d], or packed [tokens, ...] with all of cu_seqlens (int32 [b+1] of
        q), max_seqlen, cu_seqlens_k and max_seqlen_k."""
        sequences: dict[str, Any] = {
            "cu_seqlens": cu_seqlens,
            "cu_seqlens_k": cu_seqlens_k,
            "max_seqlen": max_seqlen,
            "max_seqlen_k": max_seqlen_k,
        }
        refuse_half_of(**sequences)
        if cu_seqlens is None:
            o: Tensor = flash_attn_kvpacked_func(q, kv, **self.scores(causal))
        else:
            o = flash_attn_varlen_kvpacked_func(q, kv, *sequences.values(), **self.scores(causal))
        return o


def refuse_half_of(**sequences: Any) -> None:
    """Refuses packed sequences with missing arguments."""
    missing = [name for name, value in sequences.items() if value is None]
    if missing and len(missing) < len(sequences):
        raise invalid(f"packed sequences need {' and '.join(sequences)}, and {', '.join(missing)} is not given")


class SelfAttention(_Attention):
    """Attention of one packed tensor, with a padding mask. Rows that see no key are 0."""

    def __init__(
        self, causal: bool = False, softmax_scale: float | None = None, attention_dropout: float = 0.0
    ) -> None:
        super().__init__(causal, softmax_scale, attention_dropout)

    def forward(self, qkv: Tensor, causal: bool | None = None, key_padding_mask: Tensor | None = None) -> Tensor:
        """qkv: [b, s, 3, h, d]. key_padding_mask: boolean [b, s], True for visible keys."""
        q, k, v = unpacked("qkv", qkv, 2, 3)
        words: dict[str, Any] = {"causal": True} if self.is_causal(causal) else {}
        if key_padding_mask is not None:
            words["bits"] = bits_by_torch(_padding(key_padding_mask, k))
        return _attend(self, q, k, v, words)


class CrossAttention(_Attention):
    """Attention to one tensor of keys and values, with a padding mask. Rows that see no key are 0."""

    def __init__(
        self, causal: bool = False, softmax_scale: float | None = None, attention_dropout: float = 0.0
    ) -> None:
        super().__init__(causal, softmax_scale, attention_dropout)

    def forward(
        self, q: Tensor, kv: Tensor, causal: bool | None = None, key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """q: [b, sq, hq, d]; kv: [b, sk, 2, hk, d]. key_padding_mask: boolean [b, sk], True for visible keys.

        causal is aligned to the bottom-right corner, counting only the visible keys if there is a mask.
        """
        k, v = unpacked("kv", kv, 2, 2)
        words: dict[str, Any] = {}
        if key_padding_mask is not None:
            seen = _padding(key_padding_mask, k)
            if self.is_causal(causal):
                row = torch.arange(q.shape[1], device=q.device)[:, None]
                last = row + key_padding_mask.sum(-1)[:, None, None, None] - q.shape[1]
                seen = seen & (torch.arange(k.shape[1], device=q.device) <= last)
            words["bits"] = bits_by_torch(seen)
        elif self.is_causal(causal):
            words["causal"] = True
        return _attend(self, q, k, v, words)


def _padding(mask: Tensor, k: Tensor) -> Tensor:
    if mask.dtype != torch.bool or mask.shape != k.shape[:2]:
        raise invalid(
            f"key_padding_mask is {mask.dtype} {list(mask.shape)}; it must be torch.bool {list(k.shape[:2])}, True for "
            "keys that are seen"
        )
    return mask[:, None, None, :]


def _attend(module: _Attention, q: Tensor, k: Tensor, v: Tensor, words: dict[str, Any]) -> Tensor:
    if module.softmax_scale:
        words["scale"] = module.softmax_scale
    out: Tensor = attend(q, k, v, words, module.dropout_p(), return_attn_probs=False)
    return out
