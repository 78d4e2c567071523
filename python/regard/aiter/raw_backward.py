"""AITER's backward operators.

Each returns dq, dk and dv, written to the given tensors if there are any, then an empty tensor in place of AITER's row
sums, which stay inside the kernels here. Rows that are not computed stay as they are in given memory, unless
zero_tensors is set. is_v3_atomic_fp32 and how_v3_bf16_cvt are ignored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..functional import attention_backward
from ..torch.sdpa import with_contiguous_rows
from ..torch.tensors import bare, written, zero
from .sinks import add_gradient, refuse_half_of
from .varlen import varlen_options
from .words import score_options

Results = tuple[Tensor, Tensor, Tensor, Tensor]


@torch.no_grad()
def _backward(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    softmax_lse: Tensor,
    gradients: tuple[Tensor | None, Tensor | None, Tensor | None],
    options: dict[str, Any],
    rng_state: Tensor | None,
    gen: torch.Generator | None,
    sink: tuple[Tensor | None, Tensor | None] = (None, None),
    dbias: Tensor | None = None,
) -> Results:
    """tensors: dout, q, k, v and out. sink: the logits, and the tensor that their gradient is added to."""
    if "dropout" in options:
        if rng_state is None or gen is not None:
            raise invalid("dropout_p is not 0: give the rng_state that forward returned, and no generator")
        options["seed"] = rng_state
    dout, q, k, v, out = (with_contiguous_rows(tensor.detach()) for tensor in tensors)
    arrays: dict[str, Any] = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))
    refuse_half_of(*sink)
    if dbias is not None:
        if "bias" not in options:
            raise invalid("dbias is given and bias is not: give both, or neither")
        options["bias"], arrays["grad_bias"] = _of_all_sequences(options["bias"]), _of_all_sequences(dbias)
    options = {name: bare(option) for name, option in options.items()}
    results: tuple[Tensor, ...] = attention_backward(dout, q, k, v, out, softmax_lse.detach(), **arrays, **options)
    written(*gradients, dbias)
    if sink[0] is not None and sink[1] is not None:
        add_gradient(sink[1], sink[0].detach(), dout, out, softmax_lse.detach(), options)
    dq, dk, dv = results[:3]
    return dq, dk, dv, softmax_lse.new_empty(0)


def _of_all_sequences(bias: Tensor) -> Tensor:
    """A four-dimensional view, which adds the missing dimensions before [sq, sk]."""
    return bias[(None,) * (4 - bias.dim())]


def mha_bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
    dbias: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    rng_state: Tensor | None = None,
    gen: torch.Generator | None = None,
    sink: Tensor | None = None,
    d_sink: Tensor | None = None,
) -> Results:
    """The gradients of `mha_fwd`; dbias [sq, sk] is summed over sequences and heads.

    sink: fp32 [b, hq] or [hq], whose gradient is added to d_sink, fp32 [hq].
    """
    options = score_options(
        softmax_scale,
        is_causal,
        (window_size_left, window_size_right),
        None,
        alibi_slopes=alibi_slopes,
        bias=bias,
        dropout_p=dropout_p,
        deterministic=deterministic,
    )
    tensors, gradients = (dout, q, k, v, out), (dq, dk, dv)
    return _backward(tensors, softmax_lse, gradients, options, rng_state, gen, (sink, d_sink), dbias)


def mha_varlen_bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    rng_state: Tensor | None = None,
    gen: torch.Generator | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
    sink: Tensor | None = None,
    d_sink: Tensor | None = None,
) -> Results:
    """The gradients of `mha_varlen_fwd` without soft cap and bias, which AITER's backward does not have."""
    options = score_options(
        softmax_scale,
        is_causal,
        (window_size_left, window_size_right),
        None,
        alibi_slopes=alibi_slopes,
        dropout_p=dropout_p,
        deterministic=deterministic,
    )
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    options.update(varlen_options(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, padded=padded))
    if zero_tensors:
        zero(dq, dk, dv)
    return _backward((dout, q, k, v, out), softmax_lse, (dq, dk, dv), options, rng_state, gen, (sink, d_sink))


def fmha_v3_bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    rng_state: Tensor | None = None,
    gen: torch.Generator | None = None,
) -> Results:
    """`mha_bwd`; in AITER this runs other kernels."""
    scores = (dropout_p, softmax_scale, is_causal, window_size_left, window_size_right, deterministic)
    inputs = (dout, q, k, v, out, softmax_lse)
    return mha_bwd(*inputs, *scores, dq, dk, dv, alibi_slopes=alibi_slopes, rng_state=rng_state, gen=gen)


def fmha_v3_varlen_bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    deterministic: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    rng_state: Tensor | None = None,
    gen: torch.Generator | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
) -> Results:
    """`mha_varlen_bwd`; in AITER this runs other kernels."""
    inputs = (dout, q, k, v, out, softmax_lse)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    window = (window_size_left, window_size_right)
    scores = (dropout_p, softmax_scale, zero_tensors, is_causal, *window, deterministic)
    others = (dq, dk, dv, alibi_slopes, rng_state, gen, cu_seqlens_q_padded, cu_seqlens_k_padded)
    given: Any = (*inputs, *sequences, *scores, *others)
    return mha_varlen_bwd(*given)
