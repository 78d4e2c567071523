"""Chunked attention: a query sees only keys of its own chunk. Expressed by a range of keys for each row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .varlen import places


def chunk_ranges(q: Tensor, k: Tensor, chunk: int, words: dict[str, Any]) -> Tensor:
    """int32 [1, sq, 2], or packed [tq, 2]. The diagonal of a row is aligned to the bottom-right corner, and its chunk
    is the one that contains the diagonal's key."""
    if "offsets_q" not in words:
        diagonal = torch.arange(q.shape[1], dtype=torch.int32, device=q.device) + (k.shape[1] - q.shape[1])
        return _ranges(diagonal, chunk)[None]
    lengths_q, lengths_k = (words.get(f"lengths_{side}", words[f"offsets_{side}"].diff()) for side in ("q", "k"))
    sequence, place = places(words["offsets_q"], q.shape[0])
    return _ranges(place + (lengths_k - lengths_q)[sequence], chunk)


def _ranges(diagonal: Tensor, chunk: int) -> Tensor:
    first = diagonal - diagonal % chunk
    return torch.stack((first, first + chunk), dim=-1).clamp_min(0).to(torch.int32)
