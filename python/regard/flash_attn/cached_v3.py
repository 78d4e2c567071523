"""FlashAttention-3's calls on KV caches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..torch.tensors import is_eager
from .attend import lse_as_flash_attn
from .cached import Cache, New, attend, refuse_wrong_tensors, without_idle_sides
from .chunks import read_chunk
from .varlen import places
from .words import descale_words, whole


def refuse_of_caches(cu_seqlens_k: Tensor | None) -> None:
    """Refuses what does not go with a KV cache."""
    if cu_seqlens_k is not None:
        raise invalid("cu_seqlens_k is for packed keys, and a KV cache is not packed: give seqused_k instead")


def attend_cached(
    q: Tensor,
    cache: Cache,
    new: New,
    rows_of_q: tuple[Tensor | None, Tensor | None, int | None],
    descale: tuple[Tensor | None, Tensor | None, Tensor | None],
    words: dict[str, Any],
    attention_chunk: int,
    memory: Tensor | None = None,
    qv: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """out, softmax_lse. rows_of_q: cu_seqlens_q, seqused_q and max_seqlen_q."""
    refuse_wrong_tensors(q, cache, new)
    if qv is not None and any(factor is not None for factor in descale):
        raise RefusedError("qv does not go with descale factors, as K and V have different ones: leave one of them out")
    cu_seqlens_q, seqused_q, max_seqlen_q = rows_of_q
    cache = _picked(cache)
    if q.element_size() == 1 and new.cos is not None:
        q, new, descale = _widened(q, cu_seqlens_q, new, descale)
    if cu_seqlens_q is not None:
        if max_seqlen_q is None:
            raise invalid("packed queries need max_seqlen_q, the longest sequence, as well as cu_seqlens_q")
        words |= {"offsets_q": cu_seqlens_q, "sq": whole("max_seqlen_q", max_seqlen_q)}
    if seqused_q is not None:
        words["lengths_q"] = seqused_q
    queries = words["sq"] if cu_seqlens_q is not None else q.shape[1]
    words = without_idle_sides(words, cache.rows - 1, queries - 1)
    words |= descale_words(q, *descale, cache=cache.k)
    out, lse = attend(q, cache, new, words, True, memory, read_chunk(attention_chunk), qv)
    assert lse is not None
    return out, lse_as_flash_attn(lse, cache.rows, cuda=False)


def _picked(cache: Cache) -> Cache:
    """With pages, cache_batch_idx picks rows of the table in FlashAttention-3; flash_attn 2 refuses the two
    together."""
    table, picked = cache.table, cache.batch_idx
    if table is None or picked is None:
        return cache
    if table.dim() != 2 or picked.dim() != 1 or picked.dtype not in (torch.int32, torch.int64):
        raise invalid(
            f"{cache.names.table} has shape {list(table.shape)} and {cache.names.batch_idx} {list(picked.shape)} of "
            f"{picked.dtype}; they must be [sequences, pages of a sequence] and int32 [b]"
        )
    last = table.shape[0] - 1
    readable = picked.is_cpu and is_eager(picked) and picked.numel() > 0
    if readable and not 0 <= int(picked.min()) <= int(picked.max()) <= last:
        raise invalid(f"{cache.names.batch_idx} is {picked.tolist()}; {cache.names.table} has {last + 1} rows")
    return cache._replace(table=table[picked.clamp(0, last)], batch_idx=None)


def _widened(
    q: Tensor,
    cu_seqlens_q: Tensor | None,
    new: New,
    descale: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> tuple[Tensor, New, tuple[Tensor | None, Tensor | None, Tensor | None]]:
    """8-bit queries and new tokens that are to be rotated, as bf16, since nothing rotates 8-bit numbers: the keys are
    rounded again when they are written to the cache, the queries are not."""
    of_q, of_k, of_v = descale

    def wide(x: Tensor | None, factor: Tensor | None = None, starts: Tensor | None = None) -> Tensor | None:
        if x is None or factor is None:
            return None if x is None else x.to(torch.bfloat16)
        group = x.shape[-2] // factor.shape[-1]
        of_heads = factor.repeat_interleave(group, dim=-1)  # [b, heads]
        rows = of_heads[:, None] if starts is None else of_heads[places(starts, x.shape[0])[0]]
        return (x.float() * rows[..., None]).to(torch.bfloat16)

    widened = new._replace(
        k=wide(new.k, of_k, new.offsets), v=wide(new.v, of_v, new.offsets), cos=wide(new.cos), sin=wide(new.sin)
    )
    q16 = wide(q, of_q, cu_seqlens_q)
    assert q16 is not None
    return q16, widened, (None, of_k, of_v)
