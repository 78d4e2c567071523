"""A call, and its results in AITER's order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..flash_attn.words import is_on
from ..torch import attention
from ..torch.sdpa import with_contiguous_rows


def attend(
    q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], return_lse: bool = False, return_attn_probs: bool = False
) -> Any:
    """out, with the log-sum-exp and S_dmask where they are requested."""
    q, k, v = with_contiguous_rows(q), with_contiguous_rows(k), with_contiguous_rows(v)
    return_attn_probs = is_on("return_attn_probs", return_attn_probs)
    wants_mask = return_attn_probs and "dropout" in options
    found = attention(q, k, v, lse=return_lse, dropout_mask=wants_mask, **options)
    results = list(found) if isinstance(found, tuple) else [found]
    if wants_mask:
        results[-1] = random_bytes(results[-1])
    elif return_attn_probs:
        results.append(q.new_empty(0))
    return results[0] if len(results) == 1 else tuple(results)


def random_bytes(kept: Tensor) -> Tensor:
    """A dropout mask in AITER's form, which keeps bytes of at most floor((1 - p) * 255)."""
    return torch.where(kept.bool(), 0, 255).to(torch.uint8)
