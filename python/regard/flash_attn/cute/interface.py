"""The interface of FlashAttention-4 (flash_attn.cute.interface), as far as there are kernels.

Its functions return (out, lse), where lse is None unless return_lse is set: natural logarithm, fp32 [b, h, s] or
packed [h, tokens], with the heads last if there is a qv. A gradient through lse is refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from ...errors import RefusedError
from ...torch.applied import applied
from ..combine import combine
from .attend import attend
from .words import refuse_functions, refuse_pages, score_words, sequence_words


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qv: Tensor | None = None,
    gather_kv_indices: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Any = None,
    score_mod_bwd: Any = None,
    mask_mod: Any = None,
    aux_tensors: list[Tensor] | None = None,
    aux_scalars: tuple[Any, ...] | None = None,
    block_sparse_tensors: Any = None,
    block_sparse_tensors_bwd: Any = None,
    return_lse: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of q [b, sq, hq, d] to k [b, sk, hk, d] and v [b, sk, hk, dv]; hq is a multiple of hk.

    causal and window_size are aligned to the bottom-right corner; None is an unbounded side. learnable_sink: [hq],
    with a gradient. qv: [b, sq, hq, dv], whose products with v are added to the scores. num_splits and pack_gqa say how
    FlashAttention-4 divides its work, which the plan decides here.
    """
    refuse_functions(
        score_mod=score_mod,
        score_mod_bwd=score_mod_bwd,
        mask_mod=mask_mod,
        aux_tensors=aux_tensors,
        aux_scalars=aux_scalars,
        block_sparse_tensors=block_sparse_tensors,
        block_sparse_tensors_bwd=block_sparse_tensors_bwd,
    )
    refuse_pages(gather_kv_indices=gather_kv_indices)
    words = score_words(softmax_scale, causal, window_size, learnable_sink, softcap, deterministic)
    return attend(q, k, v, qv, words, return_lse)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qv: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    min_seqlen_k: int | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    gather_kv_indices: Tensor | None = None,
    page_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Any = None,
    score_mod_bwd: Any = None,
    mask_mod: Any = None,
    block_sparse_tensors: Any = None,
    aux_tensors: list[Tensor] | None = None,
    aux_scalars: tuple[Any, ...] | None = None,
    return_lse: bool = False,
    scheduler_metadata: Any = None,
    seqlen_k_per_split: int | None = None,
    disable_scheduler_metadata: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """flash_attn_func for packed sequences [tokens, heads, dim] with cu_seqlens_q and cu_seqlens_k, int32 [b+1], or for
    padded ones [b, s, heads, dim].

    seqused_q, seqused_k: int32 [b], how many tokens of each sequence count; rows of the others are zero. max_seqlen_q
    and max_seqlen_k: the longest packed sequences, by default the number of tokens. min_seqlen_k and
    disable_scheduler_metadata are ignored here.
    """
    refuse_functions(
        score_mod=score_mod,
        score_mod_bwd=score_mod_bwd,
        mask_mod=mask_mod,
        aux_tensors=aux_tensors,
        aux_scalars=aux_scalars,
        block_sparse_tensors=block_sparse_tensors,
    )
    refuse_pages(gather_kv_indices=gather_kv_indices, page_table=page_table, scheduler_metadata=scheduler_metadata)
    refuse_pages(seqlen_k_per_split=seqlen_k_per_split)
    words = score_words(softmax_scale, causal, window_size, learnable_sink, softcap, deterministic)
    longest = (max_seqlen_q, max_seqlen_k)
    words |= sequence_words(q, k, (cu_seqlens_q, cu_seqlens_k), (seqused_q, seqused_k), longest)
    return attend(q, k, v, qv, words, return_lse)


FlashAttnFunc = applied(
    "FlashAttnFunc",
    flash_attn_func,
    "q k v qv gather_kv_indices softmax_scale causal window_size learnable_sink softcap num_splits pack_gqa "
    "deterministic score_mod score_mod_bwd mask_mod aux_tensors aux_scalars block_sparse_tensors "
    "block_sparse_tensors_bwd return_lse",
)
FlashAttnVarlenFunc = applied(
    "FlashAttnVarlenFunc",
    flash_attn_varlen_func,
    "q k v qv cu_seqlens_q cu_seqlens_k seqused_q seqused_k max_seqlen_q max_seqlen_k min_seqlen_k gather_kv_indices "
    "page_table softmax_scale causal window_size learnable_sink softcap num_splits pack_gqa deterministic score_mod "
    "score_mod_bwd mask_mod block_sparse_tensors aux_tensors aux_scalars return_lse scheduler_metadata "
    "seqlen_k_per_split disable_scheduler_metadata",
)


def flash_attn_combine(
    out_partial: Tensor,
    lse_partial: Tensor,
    out: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    cu_seqlens: Tensor | None = None,
    seqused: Tensor | None = None,
    virtual_batch_idx: Tensor | None = None,
    return_lse: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Merges the results of parts of the keys: out_partial, float32 [parts, b, s, h, d] or [parts, tokens, h, d], and
    lse_partial, float32 [parts, b, s, h] or [parts, tokens, h], in which a part without keys has -inf. Every row is
    merged, so that cu_seqlens need not say where sequences begin."""
    for name, given in (("seqused", seqused), ("virtual_batch_idx", virtual_batch_idx)):
        if given is not None:
            raise RefusedError(f"{name} leaves rows out, and here every row is merged: leave it out")
    found, lse = combine(out_partial, lse_partial, out, out_dtype)
    return found, lse if return_lse else None


def get_scheduler_metadata(
    max_seqlen_q: int,
    max_seqlen_k: int,
    nheads: int,
    nheads_kv: int,
    headdim: int,
    num_splits: int,
    headdim_v: int | None = None,
    pack_gqa: int | None = None,
    causal: bool = False,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqlen_k_new: int = 0,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    leftpad_k: Tensor | None = None,
    seqlen_k_per_split: int | None = None,
    _arch: int | None = None,
) -> NoReturn:
    """Refused: the plan of a call divides its work."""
    raise RefusedError(
        "get_scheduler_metadata divides the work of later calls, and here each call does that by itself: leave it and "
        "scheduler_metadata out"
    )
