"""Model masks as options of a call: what a word and a few numbers can express is not written out for each pair.

Models make one mask for all layers of a kind, so what is read from the device is read once for each forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import causal_mask_function, sdpa_mask
from transformers.utils.import_utils import is_tracing

from .mask import Mask
from .patterns import Pattern, pattern_of

# Models that append their own keys to the mask, if `isinstance` says that it is a tensor.
ASK_FOR_TENSORS = {"deepseek_v4"}


def mask_of(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Mask | Tensor | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    dtype: torch.dtype = torch.float32,
    config: Any = None,
    **others: Any,
) -> Mask | Tensor | None:
    """The equivalent of `transformers.masking_utils.eager_mask`, which writes numbers [b, 1, q, kv]. Like that one, it
    gives None if every query sees every key.

    Booleans remain for a model's own patterns, packed sequences, padding that is neither left nor right, caches of
    fixed size with contents and, while PyTorch compiles or traces, for padding and windows.
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
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        **others,
    )
    shape = (batch_size, 1, q_length, kv_length)
    if getattr(config, "model_type", None) in ASK_FOR_TENSORS:
        return Mask(None, booleans, shape, dtype).numbers()
    if allow_is_causal_skip or allow_is_bidirectional_skip:
        options = options_of(mask_function, q_length, kv_length, q_offset, kv_offset, attention_mask)
        nothing_is_hidden = allow_is_bidirectional_skip and options == {}
        return None if nothing_is_hidden else Mask(options, booleans, shape, dtype)
    # A model that adds to the pattern, or compiles a step of one token, for which a tensor is passed.
    mask = Mask(None, booleans, shape, dtype)
    return mask.numbers() if q_length == 1 else mask


def options_of(
    mask_function: Callable[..., Any],
    q_length: int,
    kv_length: int,
    q_offset: Any,
    kv_offset: int,
    attention_mask: Tensor | None,
) -> dict[str, Any] | None:
    """None if no options express it."""
    pattern = pattern_of(mask_function)
    if pattern is None:
        return None
    options: dict[str, Any] | None = {}
    if pattern.causal or pattern.window is not None:
        options = positions(pattern, q_length, kv_length, q_offset, kv_offset)
    if options is None or attention_mask is None:
        return options
    return with_padding(options, attention_mask, q_length, kv_length, kv_offset)


def positions(pattern: Pattern, q_length: int, kv_length: int, q_offset: Any, kv_offset: int) -> dict[str, Any] | None:
    """The options that hide keys by their distance from a query; None if the last query is not at the last key, as in a
    cache of fixed size with empty slots."""
    if isinstance(q_offset, Tensor):  # a cache of fixed size
        if is_tracing(q_offset):
            return None
        q_offset = int(q_offset)
    if q_offset + q_length != kv_offset + kv_length:
        return {"causal": "top_left"} if pattern == Pattern(causal=True) and q_offset == kv_offset == 0 else None
    options: dict[str, Any] = {}
    if pattern.window is not None and max(pattern.window) < kv_length:
        options["window"] = pattern.window
    if pattern.causal and (options or q_length > 1):
        options["causal"] = True  # at the bottom right
    return options


def with_padding(
    options: dict[str, Any], attention_mask: Tensor, q_length: int, kv_length: int, kv_offset: int
) -> dict[str, Any] | None:
    """Options from the keys' mask, [b, keys], True for keys that are not padding; None if it has gaps.

    Lengths express right padding; rows of padding are not computed either if there is a diagonal, which is theirs.
    Row ranges express left padding, and leave the diagonal where it is.
    """
    if is_tracing(attention_mask):
        return None
    seen = attention_mask[:, kv_offset : kv_offset + kv_length].to(torch.int32)
    if options.get("causal") == "top_left":  # the empty slots of the cache belong to no visible key
        filled = seen[:, :q_length].sum() == seen.shape[0] * q_length
        return options if filled else None
    if seen.shape[-1] < kv_length:
        return None
    count = seen.sum(-1, dtype=torch.int32)
    first = seen.argmax(-1).to(torch.int32)
    end = torch.where(count > 0, kv_length - seen.flip(-1).argmax(-1), 0).to(torch.int32)
    sequences = torch.stack([first, end, count], -1).tolist()
    if all(count == kv_length for _, _, count in sequences):
        return options
    if any(count != end - first for first, end, count in sequences):
        return None
    if all(first == 0 for first, _, _ in sequences):
        if not options:
            return {"lengths_k": end}
        if q_length == kv_length:
            return {**options, "lengths_q": end, "lengths_k": end}
    rows = torch.stack([first, end], -1)[:, None].expand(-1, q_length, -1)
    return {**options, "ranges": rows.contiguous()}
