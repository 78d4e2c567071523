"""FlashAttention-3's separate forward and backward passes, as ring attention and pipelines call them: autograd does
not record them."""

from __future__ import annotations

import torch
from torch import Tensor

from .attend_v3 import attend
from .cached import Cache, Names, New
from .cached_v3 import attend_cached, refuse_of_caches
from .raw import backward
from .words import is_on, score_words, sequence_words

_NAMES = Names("k_new", "v_new", "seqused_k", "kv_batch_idx", "page_table")


@torch.no_grad()
def _flash_attn_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_new: Tensor | None = None,
    v_new: Tensor | None = None,
    qv: Tensor | None = None,
    out_: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    page_table: Tensor | None = None,
    kv_batch_idx: Tensor | None = None,
    leftpad_k: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    seqlens_rotary: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Tensor | None = None,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out, softmax_lse, and the partial results of both, which are empty: they are combined already.

    With new keys, a page table or another argument of KV caches, k and v are the cache, and seqused_k says how many
    tokens each sequence has in it.
    """
    words = score_words(softmax_scale, causal, (window_size_left, window_size_right), softcap)
    descale = (q_descale, k_descale, v_descale)
    new = New(
        k_new,
        v_new,
        rotary_cos,
        rotary_sin,
        is_on("rotary_interleaved", rotary_interleaved),
        cu_seqlens_k_new,
        seqlens_rotary,
    )
    cache = Cache(k, v, seqused_k, kv_batch_idx, leftpad_k, page_table, _NAMES, waits=False)
    rows_of_q = (cu_seqlens_q, seqused_q, max_seqlen_q)
    if new.is_given() or cache.is_given() or (cu_seqlens_q is not None and cu_seqlens_k is None):
        refuse_of_caches(cu_seqlens_k)
        out, lse = attend_cached(q, cache, new, rows_of_q, descale, words, attention_chunk, out_, qv)
    else:
        words |= sequence_words(cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, max_seqlen_q, max_seqlen_k)
        if out_ is not None:
            words["out"] = out_
        out, lse = attend(q, k, v, qv, descale, words, attention_chunk, True)
    parts = lse.new_empty(0)
    return out, lse, parts, parts.clone()


def _flash_attn_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    sequed_q: Tensor | None = None,
    sequed_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dq: Tensor | None = None,
    dk: Tensor | None = None,
    dv: Tensor | None = None,
    softmax_scale: float | None = None,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    deterministic: bool = False,
    sm_margin: int = 0,
) -> tuple[Tensor, ...]:
    """dq, dk and dv, written to the given tensors if any, where rows of tokens that do not count stay as they are."""
    window = (window_size_left, window_size_right)
    words = score_words(softmax_scale, is_causal, window, softcap, None, deterministic)
    words |= sequence_words(cu_seqlens_q, cu_seqlens_k, sequed_q, sequed_k, max_seqlen_q, max_seqlen_k)
    return backward(dout, (q, k, v, out, softmax_lse), (dq, dk, dv), words)
