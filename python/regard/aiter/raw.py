"""AITER's forward operators, which autograd does not record.

Each returns out, the log-sum-exp, S_dmask, and rng_state (int64 [2]: seed and offset of dropout); those that are not
requested are empty. Rows that are not computed are zero; in a given `out`, they stay as they are unless zero_tensors is
set.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..torch import attention
from ..torch.randomness import seed
from ..torch.sdpa import with_contiguous_rows
from ..torch.tensors import zero
from .attend import random_bytes
from .varlen import by_sequence, sequence_options
from .words import descale_options, lengths_of, score_options

Results = tuple[Tensor, Tensor, Tensor, Tensor]


@torch.no_grad()
def forward(
    tensors: tuple[Tensor, Tensor, Tensor],
    options: dict[str, Any],
    return_lse: bool,
    return_randval: bool,
    out: Tensor | None,
    gen: torch.Generator | None = None,
) -> Results:
    """options: those of `regard.torch.attention`."""
    if return_randval and "dropout" not in options:
        raise invalid(
            "return_dropout_randval needs dropout_p above 0: nothing is dropped, so there are no random bytes"
        )
    q, k, v = map(with_contiguous_rows, tensors)
    if out is not None:
        options["out"] = out
    seed(options, q, gen)
    state = options.get("seed")
    state = q.new_zeros(2, dtype=torch.int64) if state is None else state
    found = attention(q, k, v, lse=return_lse, dropout_mask=return_randval, **options)
    o, *others = found if isinstance(found, tuple) else (found,)
    lse = others.pop(0) if return_lse else q.new_empty(0, dtype=torch.float32)
    return o, lse, random_bytes(others[0]) if return_randval else q.new_empty(0, dtype=torch.uint8), state


def mha_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None,
    out: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    sink_ptr: Tensor | None = None,
    gen: torch.Generator | None = None,
) -> Results:
    """`flash_attn_func` of [b, s, h, d], with `out` to write to and the generator that dropout draws from."""
    options = score_options(
        softmax_scale,
        is_causal,
        (window_size_left, window_size_right, sink_size),
        sink_ptr,
        alibi_slopes=alibi_slopes,
        bias=bias,
        dropout_p=dropout_p,
    )
    for name, lengths in (("lengths_q", cu_seqlens_q), ("lengths_k", cu_seqlens_kv)):
        if lengths is not None:
            options[name] = lengths_of(lengths)
    options.update(descale_options(q, q_descale, k_descale, v_descale))
    return forward((q, k, v), options, return_softmax_lse, return_dropout_randval, out, gen)


def mha_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    dropout_p: float,
    softmax_scale: float,
    logits_soft_cap: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    out: Tensor | None = None,
    block_table: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    gen: torch.Generator | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
    sink_ptr: Tensor | None = None,
) -> Results:
    """`flash_attn_varlen_func` of [tokens, h, d]."""
    if cu_seqlens_k is None:
        raise invalid("cu_seqlens_k is not given: it says where the keys of each sequence begin, int32 [b+1]")
    options = score_options(
        softmax_scale,
        is_causal,
        (window_size_left, window_size_right, sink_size),
        sink_ptr,
        soft_cap=logits_soft_cap,
        alibi_slopes=alibi_slopes,
        dropout_p=dropout_p,
    )
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    options.update(sequence_options(k, sequences, min_seqlen_q, padded, block_table))
    if bias is not None:
        options["bias"] = by_sequence(bias, q, options)
    if zero_tensors:
        zero(out)
    options.update(descale_options(q, q_descale, k_descale, v_descale, k))
    return forward((q, k, v), options, return_softmax_lse, return_dropout_randval, out, gen)


def fmha_v3_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    how_v3_bf16_cvt: int,
    out: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    gen: torch.Generator | None = None,
) -> Results:
    """`mha_fwd`; in AITER this runs other kernels. how_v3_bf16_cvt is ignored: rounding is always to nearest even."""
    return mha_fwd(
        q,
        k,
        v,
        dropout_p,
        softmax_scale,
        is_causal,
        window_size_left,
        window_size_right,
        0,
        return_softmax_lse,
        return_dropout_randval,
        out=out,
        bias=bias,
        alibi_slopes=alibi_slopes,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        gen=gen,
    )


def fmha_v3_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    dropout_p: float,
    softmax_scale: float,
    logits_soft_cap: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    how_v3_bf16_cvt: int,
    out: Tensor | None = None,
    block_table: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    gen: torch.Generator | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
) -> Results:
    """`mha_varlen_fwd`; in AITER this runs other kernels. how_v3_bf16_cvt is ignored."""
    return mha_varlen_fwd(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        min_seqlen_q,
        dropout_p,
        softmax_scale,
        logits_soft_cap,
        zero_tensors,
        is_causal,
        window_size_left,
        window_size_right,
        0,
        return_softmax_lse,
        return_dropout_randval,
        out=out,
        block_table=block_table,
        bias=bias,
        alibi_slopes=alibi_slopes,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        gen=gen,
        cu_seqlens_q_padded=cu_seqlens_q_padded,
        cu_seqlens_k_padded=cu_seqlens_k_padded,
    )
