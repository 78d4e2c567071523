"""The functions of flash_attn 2, with its signatures, defaults and results.

out has the type and shape of q (with V's head dimension). With return_attn_probs=True there is also softmax_lse, fp32
[b, h, s] or packed [h, tokens], and S_dmask, which is for tests: its contents depend on the flavour that `register`
chose, and it is empty without dropout.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..torch.applied import applied
from . import extension as flash_attn_gpu  # noqa: F401
from .attend import attend
from .cached import Cache, New, attend_cached, paged_words
from .probabilities import refuse_probabilities
from .raw import (  # noqa: F401  imported from here by pipelines and ring attention
    _flash_attn_backward,
    _flash_attn_forward,
    _flash_attn_varlen_backward,
    _flash_attn_varlen_forward,
    _wrapped_flash_attn_backward,
    _wrapped_flash_attn_forward,
    _wrapped_flash_attn_varlen_backward,
    _wrapped_flash_attn_varlen_forward,
)
from .words import is_on, score_words, unpacked, varlen_words

USE_TRITON_ROCM = False  # which of its libraries flash_attn uses: here none


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Attention of q [b, sq, hq, d] to k, v [b, sk, hk, d]; hq is a multiple of hk. Tensors of [b, h, s, d] would run
    as well, with a wrong result.

    causal and window_size are aligned to the bottom-right corner: query i sees key j where
    i + sk - sq - left <= j <= i + sk - sq + right, and -1 is unbounded. alibi_slopes: fp32 [hq] or [b, hq], adds
    -slope * |i + sk - sq - j|. A row that sees no key gives zeros.
    """
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func with K and V in one tensor [b, sk, 2, hk, d]."""
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    k, v = unpacked("kv", kv, 2, 2)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_func with Q, K and V in one tensor [b, s, 3, h, d]."""
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    q, k, v = unpacked("qkv", qkv, 2, 3)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """flash_attn_func for packed sequences: q [tq, hq, d], k, v [tk, hk, d].

    cu_seqlens_q, cu_seqlens_k: int32 [b+1], cumulative, first 0. max_seqlen_q and max_seqlen_k: the longest sequences.
    block_table: int32 [b, n], the pages of each sequence; k, v are then [pages, page, hk, d], without gradients.
    """
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    if block_table is None:
        words |= varlen_words(*sequences)
    else:
        refuse_probabilities(dropout_p, return_attn_probs)
        words |= paged_words(k, block_table, "block_table", sequences)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func with K and V in one tensor [tk, 2, hk, d]."""
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    words |= varlen_words(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    k, v = unpacked("kv", kv, 1, 2)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """flash_attn_varlen_func with Q, K and V in one tensor [t, 3, h, d]."""
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    words |= varlen_words(cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    q, k, v = unpacked("qkv", qkv, 1, 3)
    return attend(q, k, v, words, dropout_p, return_attn_probs)


_SCORES = "dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic return_attn_probs"
_SEQUENCES = "cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"


def _applied(name: str, function: Any, tensors: str, more: str = "") -> type:
    return applied(name, function, f"{tensors} {_SCORES} {more} is_grad_enabled")


FlashAttnFunc = _applied("FlashAttnFunc", flash_attn_func, "q k v")
FlashAttnKVPackedFunc = _applied("FlashAttnKVPackedFunc", flash_attn_kvpacked_func, "q kv")
FlashAttnQKVPackedFunc = _applied("FlashAttnQKVPackedFunc", flash_attn_qkvpacked_func, "qkv")
FlashAttnVarlenFunc = _applied("FlashAttnVarlenFunc", flash_attn_varlen_func, f"q k v {_SEQUENCES}", "block_table")
FlashAttnVarlenKVPackedFunc = _applied(
    "FlashAttnVarlenKVPackedFunc", flash_attn_varlen_kvpacked_func, f"q kv {_SEQUENCES}"
)
FlashAttnVarlenQKVPackedFunc = _applied(
    "FlashAttnVarlenQKVPackedFunc", flash_attn_varlen_qkvpacked_func, "qkv cu_seqlens max_seqlen"
)


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Attention of q [b, sq, hq, d] to a cache k_cache, v_cache [sequences, s, hk, d], after new tokens k, v
    [b, s_new, hk, d] are written into it from row cache_seqlens on: the number of tokens before, int32 [b], or one for
    all. Without cache_seqlens, sequences are as long as the cache. There are no gradients.

    cache_batch_idx: int32 [b], the sequence of the cache for each one of q. cache_leftpad: int32 [b], the row at which
    its keys begin.
    block_table: int32 [b, n], the pages of each sequence in k_cache, v_cache [pages, page, hk, d], of any size.
    rotary_cos, rotary_sin: [rows of a sequence or more, rotated dimensions / 2]; they rotate k, and q (not in place):
    with causal or a window at the positions of k, else all of q at cache_seqlens. num_splits says how
    flash_attn's kernels divide their work, which the plan decides here.

    Returns out, or (out, softmax_lse) with return_softmax_lse.
    """
    cache = Cache(k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad, block_table)
    new = New(k, v, rotary_cos, rotary_sin, is_on("rotary_interleaved", rotary_interleaved))
    words = score_words(softmax_scale, causal, window_size, softcap, alibi_slopes)
    out, lse = attend_cached(q, cache, new, words, is_on("return_softmax_lse", return_softmax_lse))
    return out if lse is None else (out, lse)


def _get_block_size_n(device: Any, head_dim: int, is_dropout: bool, is_causal: bool) -> int:
    """How many keys share the maximum that S_dmask is relative to; here all keys of a row, however long."""
    return 1 << 30
