"""Sequences one after the other in the tokens of a batch, as given by `cu_seq_lens_q` and `cu_seq_lens_k`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import RefusedError
from ..attention import attention_varlen
from .making import mask_of
from .mask import Mask


class Sequences(NamedTuple):
    begins_q: Tensor
    begins_k: Tensor
    longest_q: int | None
    longest_k: int | None


def sequences_of(begins_q: Tensor | None, begins_k: Tensor | None, longest_q: Any, longest_k: Any) -> Sequences | None:
    if begins_q is not None and begins_k is not None:
        return Sequences(begins_q, begins_k, longest_q, longest_k)
    given = {"cu_seq_lens_q": begins_q, "cu_seq_lens_k": begins_k, "max_length_q": longest_q, "max_length_k": longest_k}
    for name, value in given.items():
        if value is not None:
            raise RefusedError(
                f"attention was given {name} without both of cu_seq_lens_q and cu_seq_lens_k: give both, or none"
            )
    return None


def mask_of_sequences(is_causal: bool | None, batch: int, rows: int, keys: int) -> Mask | Tensor | None:
    """The options if a model makes no mask."""
    if is_causal is None or (is_causal and rows != keys):
        raise RefusedError(
            "attention was given cu_seq_lens_q and no mask: is_causal must say what a query sees of its sequence, and "
            "if it is True, there must be as many queries as keys"
        )
    return mask_of(batch, rows, keys) if is_causal else None


def is_by_position(mask: Mask | Tensor | None) -> bool:
    """Whether it means the same for each sequence as for the whole."""
    if not isinstance(mask, Mask):
        return mask is None
    return mask.options is not None and mask.options.keys() <= {"causal", "window"} and mask.shape[2] == mask.shape[3]


def attention_of_sequences(q: Tensor, k: Tensor, v: Tensor, of: Sequences, options: dict[str, Any]) -> Tensor:
    """q: [b, q, hq, d]; k: [b, kv, hk, d]; v: [b, kv, hk, dv], whose rows follow each other."""
    q_tokens, k_tokens, v_tokens = (x.flatten(0, 1) for x in (q, k, v))
    longest_q = len(q_tokens) if of.longest_q is None else int(of.longest_q)
    longest_k = len(k_tokens) if of.longest_k is None else int(of.longest_k)
    begins = of.begins_q.to(torch.int32), of.begins_k.to(torch.int32)
    o: Tensor = attention_varlen(q_tokens, k_tokens, v_tokens, *begins, longest_q, longest_k, **options)
    return o.view(*q.shape[:2], *o.shape[1:])


def same_sequence(of: Sequences, batch: int, rows: int, keys: int) -> Tensor:
    """[1, 1, rows, keys], True where a query and a key belong to the same sequence."""
    if batch != 1:
        raise RefusedError(
            f"cu_seq_lens_q came with a mask for each pair of tokens and a batch of {batch}: pack the sequences into "
            "one row, or leave cu_seq_lens_q out"
        )
    of_q = torch.bucketize(torch.arange(rows, device=of.begins_q.device), of.begins_q, right=True)
    of_k = torch.bucketize(torch.arange(keys, device=of.begins_k.device), of.begins_k, right=True)
    same: Tensor = of_q[:, None] == of_k
    return same.view(1, 1, rows, keys)
