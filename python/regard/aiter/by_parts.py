"""The forward and backward passes of AITER's Python functions (`_flash_attn_forward` and similar), which pipelines
and ring attention call: its operators with other argument orders."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .raw import Results, mha_fwd, mha_varlen_fwd
from .raw_backward import mha_bwd, mha_varlen_bwd


def _flash_attn_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    bias: Tensor | None,
    alibi_slopes: Tensor | None,
    q_descale: Tensor | None,
    k_descale: Tensor | None,
    v_descale: Tensor | None,
    return_lse: bool,
    return_softmax: bool,
    how_v3_bf16_cvt: int | None = 1,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None,
    sink_ptr: Tensor | None = None,
    out: Tensor | None = None,
    num_splits: int = 0,
) -> Results:
    """out, softmax_lse, S_dmask and rng_state. num_splits says how AITER's kernels divide their work."""
    scores = (dropout_p, softmax_scale, causal, window_size_left, window_size_right, sink_size)
    lengths = (cu_seqlens_q, cu_seqlens_kv)
    descale = (q_descale, k_descale, v_descale)
    others = (*lengths, out, bias, alibi_slopes, *descale, sink_ptr)
    given: Any = (q, k, v, *scores, return_lse, return_softmax, *others)
    return mha_fwd(*given)


def _flash_attn_varlen_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    cu_seqlens_q_padded: Tensor | None,
    cu_seqlens_k_padded: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    logits_soft_cap: float = 0.0,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sink_size: int = 0,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    return_lse: bool = False,
    return_softmax: bool = False,
    how_v3_bf16_cvt: int | None = 1,
    block_table: Tensor | None = None,
    out: Tensor | None = None,
    zero_tensors: bool = False,
    sink_ptr: Tensor | None = None,
) -> Results:
    """The same for packed sequences."""
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, min_seqlen_q)
    window = (window_size_left, window_size_right, sink_size)
    scores = (dropout_p, softmax_scale, logits_soft_cap, zero_tensors, causal, *window)
    others = (out, block_table, bias, alibi_slopes, q_descale, k_descale, v_descale)
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    given: Any = (q, k, v, *sequences, *scores, return_lse, return_softmax, *others, None, *padded, sink_ptr)
    return mha_varlen_fwd(*given)


def _flash_attn_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    dbias: Tensor | None,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    bias: Tensor | None,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
    is_v3_atomic_fp32: bool | None = True,
    how_v3_bf16_cvt: int | None = 1,
    sink: Tensor | None = None,
    d_sink: Tensor | None = None,
) -> Tensor:
    """Writes dq, dk and dv, and dbias and d_sink if they are given. Returns an empty tensor."""
    inputs = (dout, q, k, v, out, softmax_lse)
    scores = (dropout_p, softmax_scale, causal, window_size_left, window_size_right, deterministic)
    others = (dbias, bias, alibi_slopes, rng_state, None, sink, d_sink)
    given: Any = (*inputs, *scores, dq, dk, dv, *others)
    return mha_bwd(*given)[3]


def _flash_attn_varlen_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
    is_v3_atomic_fp32: bool | None = True,
    how_v3_bf16_cvt: int | None = 1,
    zero_tensors: bool = False,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
    sink: Tensor | None = None,
    d_sink: Tensor | None = None,
) -> Tensor:
    """The same for packed sequences."""
    inputs = (dout, q, k, v, out, softmax_lse)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    window = (window_size_left, window_size_right)
    scores = (dropout_p, softmax_scale, zero_tensors, causal, *window, deterministic)
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    others = (alibi_slopes, rng_state, None, *padded, sink, d_sink)
    given: Any = (*inputs, *sequences, *scores, dq, dk, dv, *others)
    return mha_varlen_bwd(*given)[3]
