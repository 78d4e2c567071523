"""One call: the common path of all functions of FlashAttention-3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError
from ..torch import attention
from .attend import lse_as_flash_attn
from .chunks import chunk_ranges, keys_of, read_chunk
from .words import descale_words, is_on, with_rows_contiguous


def with_qv(q: Tensor, k: Tensor, v: Tensor, qv: Tensor | None, scaled: bool) -> tuple[Tensor, Tensor]:
    """Computes q k + qv v as the product of longer rows."""
    if qv is None:
        return q, k
    if scaled:
        raise RefusedError("qv does not go with descale factors, as K and V have different ones: leave one of them out")
    return torch.cat((q, qv), dim=-1), torch.cat((k, v), dim=-1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qv: Tensor | None,
    descale: tuple[Tensor | None, Tensor | None, Tensor | None],
    words: dict[str, Any],
    attention_chunk: int,
    return_attn_probs: bool,
) -> Any:
    """out, or (out, softmax_lse)."""
    if chunk := read_chunk(attention_chunk):
        words["ranges"] = chunk_ranges(q, keys_of(k, words), chunk, words)
    factors = descale_words(q, *descale)
    words |= factors
    q, k = with_qv(q, k, v, qv, bool(factors))
    q, k, v = with_rows_contiguous(q, k, v)
    if not is_on("return_attn_probs", return_attn_probs):
        return attention(q, k, v, **words)
    out, lse = attention(q, k, v, lse=True, **words)
    return out, lse_as_flash_attn(lse, words.get("sk", k.shape[1]), cuda=False)
