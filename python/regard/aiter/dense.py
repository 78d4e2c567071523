"""Sequences of the same length, [b, s, h, d]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .attend import attend
from .words import descale_options, lengths_of, score_options


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Sequence[int] = (-1, -1, 0),
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = True,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    how_v3_bf16_cvt: int = 1,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None,
    sink_ptr: Tensor | None = None,
    num_splits: int = 0,
) -> Any:
    """q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]; bias: [sq, sk] or [1|b, 1|hq, sq, sk].
    Tensors of [b, h, s, d] would run as well, with a wrong result.

    window_size: (left, right, first tokens that stay visible). sink_ptr: learned sinks [hq]. cu_seqlens_q and _kv:
    cumulative logical lengths, [b+1], of padded sequences. num_splits: parts of the keys; 0 lets the plan choose.
    how_v3_bf16_cvt is ignored: rounding is always to nearest even.

    Returns out, or (out, lse [b, hq, sq]), followed by S_dmask with return_attn_probs.
    """
    options = score_options(
        softmax_scale,
        causal,
        window_size,
        sink_ptr,
        alibi_slopes=alibi_slopes,
        bias=bias,
        dropout_p=dropout_p,
        deterministic=deterministic,
    )
    if cu_seqlens_q is not None:
        options["lengths_q"] = lengths_of(cu_seqlens_q)
    if cu_seqlens_kv is not None:
        options["lengths_k"] = lengths_of(cu_seqlens_kv)
    if num_splits:
        options["splits"] = num_splits
    return attend(q, k, v, options, return_lse, return_attn_probs)


def flash_attn_fp8_pertensor_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_descale: Tensor | None,
    k_descale: Tensor | None,
    v_descale: Tensor | None,
    causal: bool = False,
    window_size: Sequence[int] = (-1, -1, 0),
    softmax_scale: float | None = None,
    sink_ptr: Tensor | None = None,
) -> Any:
    """`flash_attn_func` for 8-bit arrays and the factors that scale them; out is bfloat16."""
    options = score_options(softmax_scale, causal, window_size, sink_ptr)
    return attend(q, k, v, {**options, **descale_options(q, q_descale, k_descale, v_descale)})
