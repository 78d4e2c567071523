"""Chunked attention: a query sees only keys of its own chunk. Expressed by a range of keys for each row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from .varlen import places
from .words import whole


def read_chunk(attention_chunk: Any) -> Any:
    """How many keys a chunk has; 0: there are no chunks."""
    if whole("attention_chunk", attention_chunk) < 0:
        raise invalid(f"attention_chunk is {attention_chunk}; it must be how many keys a chunk has, or 0 for one chunk")
    return attention_chunk


def chunk_ranges(q: Tensor, keys: int | Tensor, chunk: int, words: dict[str, Any]) -> Tensor:
    """int32 [1|b, sq, 2], or packed [tq, 2]. keys: how many each sequence has, a number for all or a tensor [b]. The
    diagonal of a row is aligned to the bottom-right corner, and its chunk is the one that contains the diagonal's key.
    """
    if "offsets_q" in words:
        sequence, place = places(words["offsets_q"], q.shape[0])
        return _ranges(place + (keys - words.get("lengths_q", words["offsets_q"].diff()))[sequence], chunk)
    place = torch.arange(q.shape[1], dtype=torch.int32, device=q.device)
    ahead = keys - words.get("lengths_q", q.shape[1])  # how far the diagonal of the first row is from the first key
    return _ranges(
        place + (ahead[:, None] if isinstance(ahead, Tensor) else torch.full_like(place, ahead)[None]), chunk
    )


def keys_of(k: Tensor, words: dict[str, Any]) -> int | Tensor:
    """How many keys each sequence has, outside of a KV cache."""
    keys: int | Tensor = words["offsets_k"].diff() if "offsets_k" in words else k.shape[1]
    return words.get("lengths_k", keys)  # type: ignore[no-any-return]


def within_chunk(chunk: int, words: dict[str, Any]) -> dict[str, Any]:
    """The words with a window that hides no key of a row's chunk, so that kernels pass over most of the others. On a
    cache it also says that queries are rotated by their own positions, as flash_attn does with chunks."""
    left, right = words.get("window", (-1, -1))
    sides = tuple(chunk - 1 if side < 0 else min(side, chunk - 1) for side in (left, right))
    return {**words, "window": (sides[0], right) if "causal" in words else sides}


def _ranges(diagonal: Tensor, chunk: int) -> Tensor:
    first = diagonal - diagonal % chunk
    return torch.stack((first, first + chunk), dim=-1).clamp_min(0).to(torch.int32)
