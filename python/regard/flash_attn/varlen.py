"""Where tokens of packed sequences are, computed on their own device without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


def places(offsets: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """The sequence of each token and its position within it. Tokens past the last sequence count as part of it."""
    token = torch.arange(tokens, dtype=offsets.dtype, device=offsets.device)
    sequence = torch.searchsorted(offsets[1:], token, right=True).clamp(max=offsets.shape[0] - 2)
    return sequence, token - offsets[sequence]


def pad(tokens: Tensor, offsets: Tensor, longest: int) -> Tensor:
    """Packed tokens [t, ...] as a batch [b, longest, ...] with zeros after each sequence."""
    sequence, place = places(offsets, tokens.shape[0])
    batch = tokens.new_zeros(offsets.shape[0] - 1, longest, *tokens.shape[1:])
    return batch.index_put((sequence, place), tokens)
