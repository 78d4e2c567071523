"""Masks of models as options of a call: what a word and a few numbers say is not written out for each pair.

Models make one mask for all layers of a kind, so what is read from the device is read once for each forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask
from transformers.utils.import_utils import is_tracing

from .mask import Mask


def mask_of(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Mask | Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    device: Any = "cpu",
    config: Any = None,
    **others: Any,
) -> Mask | Tensor | None:
    """What `transformers.masking_utils.sdpa_mask` says by booleans [b, 1, q, kv].

    None where all is said by whether attention is causal. Booleans remain for patterns of a model's own, packed
    sequences, padding that is neither left nor right, caches of fixed size, and where PyTorch compiles or traces.
    """
    if isinstance(attention_mask, Mask):
        return attention_mask
    booleans = partial(
        sdpa_mask,
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        local_size=local_size,
        device=device,
        **others,
    )
    causal, both_sides = allow_is_causal_skip, allow_is_bidirectional_skip

    def as_it_is() -> Tensor | None:
        mask: Tensor | None = booleans(allow_is_causal_skip=causal, allow_is_bidirectional_skip=both_sides)
        return mask

    # A model that adds to the pattern, or wants it written out, allows neither.
    if not (causal or both_sides) or not is_known(mask_function, local_size, config) or is_tracing(attention_mask):
        return as_it_is()
    at_end = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    if (causal or local_size is not None) and not at_end:
        return as_it_is()

    options: dict[str, Any] = {}
    if local_size is not None and local_size <= kv_length:
        options["window"] = (local_size - 1, 0) if causal else (local_size, local_size)
    if attention_mask is not None:
        padding = padding_options(attention_mask, q_length, kv_length, kv_offset, bool(causal or options))
        if padding is None:
            return as_it_is()
        options.update(padding)
    if causal and (options or 1 < q_length < kv_length):
        options["causal"] = True  # at the bottom right
    return Mask(options, partial(booleans, allow_is_causal_skip=False)) if options else None


def is_known(mask_function: Callable[..., Any], local_size: int | None, config: Any) -> bool:
    """Whether it is one of transformers' own patterns: all keys, those before, or a window, which has a function of its
    own for each size. Chunks also have a local size."""
    if local_size is None:
        return mask_function in (causal_mask_function, bidirectional_mask_function)
    chunks = getattr(config, "attention_chunk_size", None)
    return chunks is None and local_size == getattr(config, "sliding_window", None)


def padding_options(
    attention_mask: Tensor, q_length: int, kv_length: int, kv_offset: int, diagonal: bool
) -> dict[str, Tensor] | None:
    """Of the keys' mask, [b, keys], True where a key is none of padding; None where it has gaps.

    Lengths say right padding, where rows of padding are not computed either if there is a diagonal, which is theirs.
    Row ranges say left padding, and leave the diagonal where it is.
    """
    if attention_mask.shape[-1] < kv_offset + kv_length:
        return None
    seen = attention_mask[:, kv_offset : kv_offset + kv_length].to(torch.int32)
    count = seen.sum(-1, dtype=torch.int32)
    first = seen.argmax(-1).to(torch.int32)
    end = torch.where(count > 0, kv_length - seen.flip(-1).argmax(-1), 0).to(torch.int32)
    sequences = torch.stack([first, end, count], -1).tolist()
    if all(count == kv_length for _, _, count in sequences):
        return {}
    if any(count != end - first for first, end, count in sequences):
        return None
    if all(first == 0 for first, _, _ in sequences):
        if not diagonal:
            return {"lengths_k": end}
        if q_length == kv_length:
            return {"lengths_q": end, "lengths_k": end}
    rows = torch.stack([first, end], -1)[:, None].expand(-1, q_length, -1)
    return {"ranges": rows.contiguous()}
