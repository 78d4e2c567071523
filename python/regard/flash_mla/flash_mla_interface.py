"""The functions of `flash_mla.flash_mla_interface`: decode over a latent cache, attention of packed sequences; sparse
attention is refused."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..flash_attn.words import is_on
from ..torch import attention
from ..torch.tensors import refuse_without_strides
from ..words import count, number, quote
from .packed import flash_attn_varlen_func, flash_attn_varlen_kvpacked_func, flash_attn_varlen_qkvpacked_func

__all__ = [
    "FlashMLASchedMeta",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_mla_sparse_fwd",
    "flash_mla_with_kvcache",
    "get_mla_metadata",
]

_SPARSE = (
    "it belongs to sparse attention, and here each query sees all keys of its sequence up to cache_seqlens: leave it "
    "out, and give block_table"
)


class FlashMLASchedMeta:
    """FlashMLA's schedule, which its first call makes and which is wrong once a length changes. Here it is empty: each
    call reads the lengths."""


def get_mla_metadata(*args: Any, **kwargs: Any) -> tuple[FlashMLASchedMeta, None]:
    """An empty schedule for `flash_mla_with_kvcache`, and None. Arguments are those of older releases, and are not
    read."""
    return FlashMLASchedMeta(), None


@torch.no_grad()
def flash_mla_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    block_table: Tensor | None,
    cache_seqlens: Tensor | None,
    head_dim_v: int,
    tile_scheduler_metadata: FlashMLASchedMeta,
    num_splits: None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_k_cache: Tensor | None = None,
    extra_indices_in_kvcache: Tensor | None = None,
    topk_length: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of a few queries of each sequence to a cache in pages, whose first head_dim_v columns are V.

    q: [b, sq, hq, d]; k_cache: [pages, page, hk, d], of q's type, with pages of any size; block_table: int32 [b, n],
    the pages of each sequence; cache_seqlens: int32 [b], the lengths with the tokens of q. causal: query i of sq sees
    the keys up to the length - sq + i. softmax_scale: 1/sqrt(d) by default. tile_scheduler_metadata is what
    `get_mla_metadata` returned. Autograd does not record it.

    Returns out, [b, sq, hq, head_dim_v], and the natural log-sum-exp, float32 [b, hq, sq]. A row that sees no key has
    out 0 and a log-sum-exp of +inf, as in FlashMLA.
    """
    _refuse_sparse(
        indices=indices,
        attn_sink=attn_sink,
        extra_k_cache=extra_k_cache,
        extra_indices_in_kvcache=extra_indices_in_kvcache,
        topk_length=topk_length,
        extra_topk_length=extra_topk_length,
    )
    if is_on("is_fp8_kvcache", is_fp8_kvcache):
        raise RefusedError(
            "is_fp8_kvcache is True, which means rows of 656 bytes with factors and a bf16 part among them, for sparse "
            "attention: regard.torch.attention takes a cache of float8_e4m3fn with descale_k"
        )
    _refuse_metadata(tile_scheduler_metadata, num_splits)
    if block_table is None or cache_seqlens is None:
        raise invalid(
            "block_table and cache_seqlens are not both given: they say which pages each sequence has, int32 [b, n], "
            "and how many tokens are in them, int32 [b]"
        )
    refuse_without_strides(q=q, k_cache=k_cache, block_table=block_table, cache_seqlens=cache_seqlens)
    if q.dim() != 4 or k_cache.dim() != 4:
        raise invalid(
            f"q has shape {list(q.shape)} and k_cache {list(k_cache.shape)}; they must be [b, sq, hq, d] and "
            "[pages, page, hk, d]"
        )
    if k_cache.dtype != q.dtype:
        raise invalid(f"k_cache is {k_cache.dtype} and q {q.dtype}; they must be of one type")
    options: dict[str, Any] = {"page_table": block_table, "lengths_k": cache_seqlens, "causal": is_on("causal", causal)}
    if softmax_scale is not None:
        options["scale"] = number("softmax_scale", softmax_scale)
    dv = count("head_dim_v", head_dim_v)
    if dv == k_cache.shape[3]:  # K has no columns beside those of V
        out, lse = attention(q, k_cache, k_cache, lse=True, **options)
    else:
        out, lse = attention(q, k_cache, None, dv=dv, lse=True, **options)
    return out, lse.masked_fill_(lse == -math.inf, math.inf)


def _refuse_sparse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise RefusedError(f"{name} is given, and {_SPARSE}")


def _refuse_metadata(tile_scheduler_metadata: Any, num_splits: Any) -> None:
    if not isinstance(tile_scheduler_metadata, FlashMLASchedMeta):
        raise invalid(
            f"tile_scheduler_metadata is {quote(tile_scheduler_metadata)}; it must be the first result of "
            "get_mla_metadata()"
        )
    if num_splits is not None:
        raise invalid(
            f"num_splits is {quote(num_splits)}; it must be None, the second result of get_mla_metadata(), as each "
            "call finds the splits itself"
        )


def flash_mla_sparse_fwd(*arguments: Any, **named: Any) -> NoReturn:
    """Refused: sparse attention."""
    raise RefusedError(
        "flash_mla_sparse_fwd is not provided: it reads keys by indices, and here each query sees all keys of its "
        "sequence, as in flash_mla_with_kvcache"
    )
