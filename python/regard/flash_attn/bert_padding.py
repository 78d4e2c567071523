"""Conversion of padded batches [b, s, ...] to packed tokens [tokens, ...] and back, as in flash_attn.bert_padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
    """The rows of `input` at `indices`."""
    return input.index_select(0, indices)


def index_put_first_axis(values: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """`values` in the rows at `indices`, of `first_axis_dim` rows; the others are zero."""
    rows = values.new_zeros(first_axis_dim, *values.shape[1:])
    return rows.index_copy(0, indices, values)


def index_first_axis_residual(input: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of `input` at `indices`, and `input` itself, for a residual path."""
    return index_first_axis(input, indices), input


def _offsets(lengths: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))


def _longest(lengths: Tensor) -> int:
    return int(lengths.max()) if lengths.numel() else 0


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """The tokens of a padded batch, packed.

    hidden_states: [b, s, ...]. attention_mask: [b, s], True (or 1) for a token that counts. unused_mask: the same for
    tokens that keep their position but do not count.

    Returns the packed tokens, their indices in the flattened batch, the cumulative lengths (int32 [b+1]), the longest
    length, and how many tokens of each sequence count (int32 [b]).
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    tokens = index_first_axis(hidden_states.flatten(0, 1), indices)
    return tokens, indices, _offsets(lengths), _longest(lengths), attention_mask.sum(dim=-1, dtype=torch.int32)


def unpad_input_for_concatenated_sequences(
    hidden_states: Tensor, attention_mask_in_length: Tensor
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The same for rows that hold several sequences, one after the other.

    attention_mask_in_length: [b, s], the lengths of the sequences of each row, then zeros: [[2, 3, 0, 0, 0, 0]] has
    two sequences in one row of 6, of which the last is padding.
    """
    filled = attention_mask_in_length.sum(dim=-1, keepdim=True)
    position = torch.arange(attention_mask_in_length.shape[-1], device=filled.device)
    indices = (position < filled).flatten().nonzero().flatten()
    lengths = attention_mask_in_length[attention_mask_in_length != 0]
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, _offsets(lengths), _longest(lengths)


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """Packed tokens at their original positions in a batch [batch, seqlen, ...], zeros elsewhere."""
    shape: Any = (batch, seqlen, *hidden_states.shape[1:])
    return index_put_first_axis(hidden_states, indices, batch * seqlen).view(shape)
