"""AITER's arguments as options of `regard.torch.attention`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import invalid, wrong_type
from ..flash_attn.words import descale_words, is_on
from ..flash_attn.words import soft_cap as cap
from ..torch.tensors import refuse_others
from ..words import dropout_words, quote


def score_options(
    softmax_scale: float | None,
    causal: bool,
    window_size: Sequence[int],
    sink_ptr: Tensor | None,
    *,
    soft_cap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    bias: Tensor | None = None,
    dropout_p: float = 0.0,
    deterministic: bool = False,
) -> dict[str, Any]:
    """The options for scores and weights; arguments at their defaults give none."""
    if bias is not None:
        refuse_slopes(alibi_slopes)
    refuse_others(sink_ptr=sink_ptr)
    options: dict[str, Any] = {
        "scale": softmax_scale,
        "causal": True if is_on("causal", causal) else None,
        "softcap": cap("logits_soft_cap", soft_cap),
        "alibi": alibi_slopes,
        "bias": bias,
        "sink": None if sink_ptr is None else sink_ptr.float(),
        **dropout_words(dropout_p),
        "deterministic": True if is_on("deterministic", deterministic) else None,
        **window_options(window_size),
    }
    return {name: option for name, option in options.items() if option is not None}


def refuse_slopes(alibi_slopes: Tensor | None) -> None:
    """Refuses ALiBi slopes together with a bias."""
    if alibi_slopes is not None:
        raise invalid("bias and alibi_slopes are both given: add the slopes to the bias, or leave one of them out")


def window_options(window_size: Sequence[int]) -> dict[str, Any]:
    """From (left, right) or (left, right, sink tokens), where a negative side is unbounded."""
    try:
        left, right, *others = (operator.index(number) for number in window_size)
        (sink_tokens,) = others or (0,)
        if sink_tokens < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise invalid(
            f"window_size is {quote(window_size)}; it must be (left, right) or (left, right, sink tokens) of whole "
            "numbers, where -1 is an unbounded side and sink tokens are 0 or more"
        ) from None
    if left < 0 and right < 0:
        return {}
    options: dict[str, Any] = {"window": (max(left, -1), max(right, -1))}
    if sink_tokens and left >= 0:  # only a left edge hides first tokens
        options["sink_tokens"] = sink_tokens
    return options


def descale_options(of: Tensor, q: Any, k: Any, v: Any, cache: Tensor | None = None) -> dict[str, Any]:
    """The factors of tensors like `of` (K and V like `cache`), where they are given, as arrays of one number or
    [b, hk]."""
    for name, factor in (("q", q), ("k", k), ("v", v)):
        if factor is not None and not isinstance(factor, Tensor):
            raise wrong_type(f"{name}_descale is {quote(factor)}; it must be a float32 tensor of one number")
    q, k, v = (factor if factor is None or factor.dim() else factor[None] for factor in (q, k, v))
    return descale_words(of, q, k, v, cache)


def lengths_of(cu_seqlens: Tensor) -> Tensor:
    """The lengths from cumulative logical lengths, int32 or int64, if something else says where sequences begin."""
    return cu_seqlens.diff().to(torch.int32)
