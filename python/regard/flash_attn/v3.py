"""The interface of FlashAttention-3 (the module flash_attn_interface), as far as there are kernels.

num_splits, pack_gqa and sm_margin say how its kernels divide their work, not what they compute; here the plan decides
that. The LSE of a row that sees no key is -inf, or +inf if K is empty.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..torch.applied import applied
from .attend_v3 import attend
from .kvcache import refuse_cache
from .raw_v3 import _flash_attn_backward, _flash_attn_forward  # noqa: F401  imported from here by pipelines
from .words import score_words, unpacked, used_words, varlen_words

flash_attn_3_gpu = torch.ops.flash_attn_3


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
) -> NoReturn:
    """Refused: there are no kernels for KV caches yet."""
    refuse_cache("flash_attn_with_kvcache")


def refuse_combine() -> NoReturn:
    raise RefusedError(
        "flash_attn_combine has no kernels yet: flash_attn_func and flash_attn_varlen_func split long rows of keys and "
        "combine the parts by themselves"
    )


def flash_attn_combine(
    out_partial: Tensor, lse_partial: Tensor, out: Tensor | None = None, out_dtype: torch.dtype | None = None
) -> NoReturn:
    """Refused: attention splits its keys and combines the parts internally."""
    refuse_combine()


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
) -> NoReturn:
    """Refused: it prepares flash_attn_with_kvcache."""
    refuse_cache("get_scheduler_metadata")
