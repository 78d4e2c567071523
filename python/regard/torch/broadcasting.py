"""The broadcasting of scaled_dot_product_attention: arrays of any rank as [b, h, s, d]."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InvalidError
from .tensors import refuse_freed


def of_four_dimensions(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, tuple[int, ...]]:
    """Arrays and mask for a call, and the shape of its result without the last dimension."""
    arrays = query, key, value
    for name, array in zip(("query", "key", "value"), arrays):
        if array.dim() < 2:
            raise InvalidError(f"{name} has shape {list(array.shape)}; it must be [..., sequence, dimension]")
    refuse_freed(query=query, key=key, value=value)  # some are copied
    rank = max(array.dim() for array in arrays)
    leading = broadcast_batch(*arrays)
    of_query, *of_keys = [array.shape[-3] if array.dim() > 2 else 1 for array in arrays]
    heads = max(of_query, *of_keys)
    # Sizes that depend on data (torch.export) are first compared with each other: whether they are 1 is not known.
    if not enable_gqa and any(count != heads and count != 1 for count in (of_query, *of_keys)):
        raise InvalidError(
            f"query, key and value have {of_query}, {of_keys[0]} and {of_keys[1]} heads; the numbers must be equal, or "
            "1, or else pass enable_gqa=True"
        )
    heads_of_all = of_query if enable_gqa else heads
    query = one_batch(with_heads(query, heads_of_all), leading)
    key, value = (one_batch(with_heads(array, max(of_keys)), leading) for array in (key, value))
    if mask is not None:
        refuse_mask(mask, (*leading, heads_of_all, query.shape[2], key.shape[2]))
    if mask is not None and mask.dim() > 3:
        shared = mask.shape[:-3] != leading and all(size == 1 for size in mask.shape[:-3])
        mask = mask.reshape(mask.shape[-3:]) if shared else one_batch(mask, leading)
    return query, key, value, mask, (*leading, heads_of_all, query.shape[2])[1 - rank :]


def broadcast_batch(*arrays: Tensor) -> tuple[int, ...]:
    """The dimensions before heads."""
    try:
        return tuple(torch.broadcast_shapes(*[array.shape[:-3] for array in arrays]))
    except RuntimeError:
        query, key, value = (list(array.shape) for array in arrays)
        raise InvalidError(
            f"query, key and value have shapes {query}, {key} and {value}; dimensions before the heads must be equal, "
            "or 1"
        ) from None


def refuse_mask(mask: Tensor, scores: tuple[int, ...]) -> None:
    """Refuses a mask that does not broadcast to [..., heads, L, S]. Once packed into bits, its keys are unknown."""
    rank = mask.dim()
    if not 0 < rank <= len(scores) or any(own != size and own != 1 for own, size in zip(mask.shape, scores[-rank:])):
        raise InvalidError(
            f"attn_mask has shape {list(mask.shape)}; it is broadcast to that of the scores, {list(scores)}: each of "
            "its dimensions must be the same as theirs, or 1"
        )


def with_heads(array: Tensor, count: int) -> Tensor:
    """[..., heads, s, d] with that many heads, by repeating the existing ones."""
    array = array[None] if array.dim() == 2 else array
    there = array.shape[-3]
    if there == count:
        return array
    if there == 1:
        return array.expand(*array.shape[:-3], count, -1, -1)
    return array.repeat_interleave(count // there, dim=-3)


def one_batch(array: Tensor, leading: tuple[int, ...]) -> Tensor:
    array = array.expand(*leading, *array.shape[-3:])
    return array.flatten(0, len(leading) - 1) if leading else array[None]
