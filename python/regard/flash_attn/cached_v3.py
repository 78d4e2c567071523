"""FlashAttention-3's calls on KV caches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..errors import RefusedError, invalid
from ..words import quote
from .attend import lse_as_flash_attn
from .cached import Cache, New, attend, without_idle_sides
from .words import descale_words, whole


def refuse_of_caches(cu_seqlens_k: Tensor | None, qv: Tensor | None, attention_chunk: int) -> None:
    """Refuses what does not go with a KV cache."""
    if cu_seqlens_k is not None:
        raise invalid("cu_seqlens_k is for packed keys, and those of a KV cache are not: leave it out, give seqused_k")
    if qv is not None:
        raise RefusedError("qv has no kernels for KV caches yet: leave it out, or give K and V as they are")
    if attention_chunk:
        raise RefusedError(
            f"attention_chunk is {quote(attention_chunk)}, for which there are no kernels on KV caches: give 0, or "
            "window_size"
        )


def attend_cached(
    q: Tensor,
    cache: Cache,
    new: New,
    rows_of_q: tuple[Tensor | None, Tensor | None, int | None],
    descale: tuple[Tensor | None, Tensor | None, Tensor | None],
    words: dict[str, Any],
    memory: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """out, softmax_lse. rows_of_q: cu_seqlens_q, seqused_q and max_seqlen_q."""
    cu_seqlens_q, seqused_q, max_seqlen_q = rows_of_q
    if cu_seqlens_q is not None:
        if max_seqlen_q is None:
            raise invalid("packed queries need max_seqlen_q, the longest sequence, as well as cu_seqlens_q")
        words |= {"offsets_q": cu_seqlens_q, "sq": whole("max_seqlen_q", max_seqlen_q)}
    if seqused_q is not None:
        words["lengths_q"] = seqused_q
    queries = words["sq"] if cu_seqlens_q is not None else q.shape[1]
    words = without_idle_sides(words, cache.rows - 1, queries - 1)
    words |= descale_words(q, *descale, cache=cache.k)
    out, lse = attend(q, cache, new, words, True, memory)
    assert lse is not None
    return out, lse_as_flash_attn(lse, cache.rows, cuda=False)
