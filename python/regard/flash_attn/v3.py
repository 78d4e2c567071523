"""The interface of FlashAttention-3 (the module flash_attn_interface), as far as there are kernels.

num_splits, pack_gqa and sm_margin say how its kernels divide their work, not what they compute; here the plan decides
that. The LSE of a row that sees no key is -inf, or +inf if K is empty.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..torch.applied import applied
from ..torch.tensors import refuse_without_strides
from .attend_v3 import attend
from .cached import Cache, Names, New
from .cached_v3 import attend_cached
from .combine import combine
from .raw_v3 import _flash_attn_backward, _flash_attn_forward  # noqa: F401  imported from here by pipelines
from .words import is_on, score_words, unpacked, used_words, varlen_words

flash_attn_3_gpu = torch.ops.flash_attn_3
_NAMES = Names(table="page_table")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """Attention of q [b, sq, hq, d] to k [b, sk, hk, d] and v [b, sk, hk, dv]. Tensors of [b, h, s, d] would run as
    well, with a wrong result.

    qv: [b, sq, hq, dv], whose products with v are added to the scores. q_descale, k_descale, v_descale: fp32 [b, hk],
    for 8-bit tensors. attention_chunk: the size of chunks; a query sees only keys of its own chunk.
    """
    words = score_words(softmax_scale, causal, window_size, softcap, None, deterministic)
    return attend(q, k, v, qv, (q_descale, k_descale, v_descale), words, attention_chunk, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: int | None = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func for one tensor [b, s, 3, h, d], or [b, s, hq + 2 hk, d] with num_heads_q."""
    if qkv.dim() == 5:
        q, k, v = unpacked("qkv", qkv, 2, 3)
    elif num_heads_q is None:
        raise ValueError("qkv has no dimension of 3 for Q, K and V, so num_heads_q must say how many heads Q has")
    else:
        if qkv.dim() != 4 or not 0 < num_heads_q < qkv.shape[2] or (qkv.shape[2] - num_heads_q) % 2:
            shape = list(qkv.shape)
            raise invalid(f"qkv has shape {shape}; with num_heads_q={num_heads_q} it must be [b, s, hq + 2 hk, d]")
        of_k = (qkv.shape[2] - num_heads_q) // 2
        q, k, v = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q:-of_k], qkv[:, :, -of_k:]
    words = score_words(softmax_scale, causal, window_size, softcap, None, deterministic)
    return attend(q, k, v, None, (q_descale, k_descale, v_descale), words, attention_chunk, return_attn_probs)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func for packed sequences [tokens, heads, dim]; cu_seqlens_q, cu_seqlens_k: int32 [b+1].

    seqused_q, seqused_k: int32 [b], how many tokens of each sequence count; rows of the others are zero.
    """
    words = score_words(softmax_scale, causal, window_size, softcap, None, deterministic)
    words |= varlen_words(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    words |= used_words(seqused_q, seqused_k)
    return attend(q, k, v, qv, (q_descale, k_descale, v_descale), words, attention_chunk, return_attn_probs)


FlashAttnFunc = applied(
    "FlashAttnFunc",
    flash_attn_func,
    "q k v softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits "
    "pack_gqa deterministic sm_margin return_attn_probs",
)
FlashAttnQKVPackedFunc = applied(
    "FlashAttnQKVPackedFunc",
    flash_attn_qkvpacked_func,
    "qkv softmax_scale causal q_descale k_descale v_descale window_size attention_chunk softcap deterministic "
    "num_heads_q sm_margin return_attn_probs",
)
FlashAttnVarlenFunc = applied(
    "FlashAttnVarlenFunc",
    flash_attn_varlen_func,
    "q k v cu_seqlens_q cu_seqlens_k seqused_q seqused_k max_seqlen_q max_seqlen_k softmax_scale causal qv q_descale "
    "k_descale v_descale window_size attention_chunk softcap num_splits pack_gqa deterministic sm_margin "
    "return_attn_probs",
)


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    qv: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    page_table: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Tensor | None = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Attention of q [b, sq, hq, d], or of packed q [tokens, hq, d] with cu_seqlens_q and max_seqlen_q, to a cache
    k_cache, v_cache [sequences, s, hk, d], after new tokens k, v, [b, s_new, hk, d] or packed with cu_seqlens_k_new,
    are written into it from row cache_seqlens on. There are no gradients.

    qv: shaped like q, with the columns of v: its products with v_cache are added to the scores. This is latent
    attention, of at most 512 columns of k_cache and v_cache together, or 64 and 512.
    page_table: int32 [b, n], the pages of each sequence in k_cache, v_cache [pages, page, hk, d], of any size. With
    cache_batch_idx, int32 [b], it is [sequences, n], and sequence i has row cache_batch_idx[i].
    rotary_seqlens: int32 [b], where the rotation of each sequence begins if not at cache_seqlens. The other arguments
    are those of flash_attn 2's function; scheduler_metadata is ignored, as the plan decides what it says.

    Returns out, or with return_softmax_lse (out, softmax_lse, and two empty tensors in place of partial results).
    """
    words = score_words(softmax_scale, causal, window_size, softcap)
    cache = Cache(k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad, page_table, _NAMES, waits=False)
    interleaved = is_on("rotary_interleaved", rotary_interleaved)
    new = New(k, v, rotary_cos, rotary_sin, interleaved, cu_seqlens_k_new, rotary_seqlens)
    descale = (q_descale, k_descale, v_descale)
    rows_of_q = (cu_seqlens_q, None, max_seqlen_q)
    out, lse = attend_cached(q, cache, new, rows_of_q, descale, words, attention_chunk, None, qv)
    return (out, lse, *(lse.new_empty(0) for _ in range(2))) if is_on("return_softmax_lse", return_softmax_lse) else out


def flash_attn_combine(
    out_partial: Tensor, lse_partial: Tensor, out: Tensor | None = None, out_dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Merges the results of parts of the keys: out_partial, float32 [parts, b, s, h, d] or [parts, tokens, h, d], and
    lse_partial, float32 [parts, b, s, h] or [parts, tokens, h]. A part without keys has an lse_partial of -inf.

    Returns out, of out_dtype or float32, and softmax_lse, both shaped as those of one part.
    """
    return combine(out_partial, lse_partial, out, out_dtype)


def get_scheduler_metadata(
    batch_size: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_heads_q: int,
    num_heads_kv: int,
    headdim: int,
    cache_seqlens: Tensor,
    qkv_dtype: torch.dtype = torch.bfloat16,
    headdim_v: int | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k_new: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    page_size: int | None = None,
    max_seqlen_k_new: int = 0,
    causal: bool = False,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    has_softcap: bool = False,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> Tensor:
    """An empty tensor to pass as scheduler_metadata: the work of a call is divided when it is made, by its lengths."""
    refuse_without_strides(cache_seqlens=cache_seqlens)
    return cache_seqlens.new_empty(0, dtype=torch.int32)
