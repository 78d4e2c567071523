"""The functions of `flash_mla.flash_mla_interface`: decode on a latent cache, and attention of packed sequences. Sparse
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
    "it is for sparse attention, which is not supported: leave it out, and give block_table, as each query sees all "
    "keys of its sequence up to cache_seqlens"
)


class FlashMLASchedMeta:
    """FlashMLA's schedule. There the first call makes it, for lengths that must not change; here it is empty, as each
    call reads the lengths."""


def get_mla_metadata(*args: Any, **kwargs: Any) -> tuple[FlashMLASchedMeta, None]:
    """An empty schedule for `flash_mla_with_kvcache`, and None. The arguments of older releases are accepted and not
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

    is_fp8_kvcache: a row of k_cache is bytes (float8_e4m3fn, uint8 or int8): head_dim_v float8_e4m3fn numbers, a
    float32 factor for each 128 of them, and the other d - head_dim_v columns in q's type; 656 bytes for 576 and 512 in
    bf16.

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
    fp8 = is_on("is_fp8_kvcache", is_fp8_kvcache)
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
    if not fp8 and k_cache.dtype != q.dtype:
        raise invalid(f"k_cache is {k_cache.dtype} and q {q.dtype}; they must have the same type")
    options: dict[str, Any] = {"page_table": block_table, "lengths_k": cache_seqlens, "causal": is_on("causal", causal)}
    if softmax_scale is not None:
        options["scale"] = number("softmax_scale", softmax_scale)
    dv = count("head_dim_v", head_dim_v)
    if fp8:
        k, descale, k_rope = _parts_of_rows(k_cache, q, dv)
        out, lse = attention(q, k, None, k_rope=k_rope, descale_k=descale, lse=True, **options)
    elif dv == k_cache.shape[3]:  # all columns of K are V
        out, lse = attention(q, k_cache, k_cache, lse=True, **options)
    else:
        out, lse = attention(q, k_cache, None, dv=dv, lse=True, **options)
    return out, lse.masked_fill_(lse == -math.inf, math.inf)


def _parts_of_rows(k_cache: Tensor, q: Tensor, dv: int) -> tuple[Tensor, Tensor, Tensor]:
    """Views of rows of bytes: the numbers of V, their factors, and the other columns of K."""
    columns, size = q.shape[3] - dv, q.dtype.itemsize
    if dv % 128 != 0 or columns <= 0:
        raise invalid(
            f"head_dim_v is {dv} and q has {q.shape[3]} columns; with is_fp8_kvcache, head_dim_v must be a multiple of "
            "128 and less than those, such as 512 of 576"
        )
    factors = dv + dv // 128 * 4
    if k_cache.dtype.itemsize != 1 or k_cache.shape[3] != factors + columns * size:
        raise invalid(
            f"k_cache is {k_cache.dtype} with rows of {k_cache.shape[3]}; with is_fp8_kvcache it must be of bytes "
            f"(float8_e4m3fn, uint8 or int8) with {factors + columns * size} in a row"
        )
    return (
        k_cache[..., :dv].view(torch.float8_e4m3fn),
        k_cache[..., dv:factors].view(torch.float32),
        k_cache[..., factors:].view(q.dtype),
    )


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
            "call chooses its splits"
        )


def flash_mla_sparse_fwd(*arguments: Any, **named: Any) -> NoReturn:
    """Refused: sparse attention."""
    raise RefusedError(
        "flash_mla_sparse_fwd is not supported: it reads only the keys of its indices; flash_mla_with_kvcache reads "
        "all keys of each sequence"
    )
