"""flash_attn's arguments as options of Regard."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import SymInt, Tensor

from ..errors import RefusedError, invalid
from ..torch.sdpa import with_contiguous_rows
from ..torch.tensors import refuse_without_strides
from ..words import PAIR, quote


def read_window(window_size: Any) -> tuple[int, int]:
    """(left, right), integers or a tensor; negative is unbounded."""
    try:
        left, right = window_size
        return max(-1, operator.index(left)), max(-1, operator.index(right))
    except (TypeError, ValueError):
        raise invalid(f"window_size is {window_size!r}; it must be {PAIR}") from None


def is_on(name: str, value: Any) -> bool:
    """A switch; refuses text such as "top_left"."""
    try:
        if value in (True, False, None):
            return bool(value)
    except (RuntimeError, ValueError):  # an array, which has no truth value
        pass
    raise invalid(f"{name} is {quote(value)}; it must be True or False")


def soft_cap(name: str, value: Any) -> Any:
    """Only a value above 0 is a cap, and others are None; NaN is refused later."""
    try:
        return None if value <= 0 else value
    except (TypeError, RuntimeError, ValueError):  # no number, or an array of several
        raise invalid(f"{name} is {quote(value)}; it must be a number, and 0 for no cap") from None


def whole(name: str, value: Any) -> Any:
    """An integer, from Python or from a tensor; a symbol is returned as it is."""
    try:
        return value if isinstance(value, (int, SymInt)) else operator.index(value)
    except TypeError:
        raise invalid(f"{name} is {quote(value)}; it must be a whole number") from None


def score_words(
    softmax_scale: float | None,
    causal: bool,
    window_size: Any,
    softcap: float,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
) -> dict[str, Any]:
    """The options for scores; arguments at their defaults give none."""
    words: dict[str, Any] = {}
    if softmax_scale is not None:
        words["scale"] = softmax_scale
    if is_on("causal", causal):
        words["causal"] = True
    window = read_window(window_size)
    if window != (-1, -1):
        words["window"] = window
    cap = soft_cap("softcap", softcap)
    if cap is not None:
        words["softcap"] = cap
    if alibi_slopes is not None:
        words["alibi"] = alibi_slopes
    if is_on("deterministic", deterministic):
        words["deterministic"] = True
    return words


def sequences_between(name: str, cu_seqlens: Tensor) -> Any:
    """How many packed sequences there are, from where they begin."""
    refuse_without_strides(**{name: cu_seqlens})
    if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] == 0:
        raise invalid(f"{name} has shape {list(cu_seqlens.shape)}; it must be int32 [b+1], cumulative, first 0")
    return cu_seqlens.shape[0] - 1


def varlen_words(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int) -> dict[str, Any]:
    sq, sk = whole("max_seqlen_q", max_seqlen_q), whole("max_seqlen_k", max_seqlen_k)
    return {"offsets_q": cu_seqlens_q, "offsets_k": cu_seqlens_k, "sq": sq, "sk": sk}


def used_words(seqused_q: Tensor | None, seqused_k: Tensor | None) -> dict[str, Any]:
    """How many tokens of each sequence count, if that is given."""
    return {name: used for name, used in (("lengths_q", seqused_q), ("lengths_k", seqused_k)) if used is not None}


def sequence_words(
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    seqused_q: Tensor | None,
    seqused_k: Tensor | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
) -> dict[str, Any]:
    """Where packed sequences begin, if they are packed, and how many tokens of each sequence count."""
    words: dict[str, Any] = {}
    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        if max_seqlen_q is None or max_seqlen_k is None:
            raise invalid(
                "packed sequences need max_seqlen_q and max_seqlen_k as well as cu_seqlens_q and cu_seqlens_k"
            )
        words = varlen_words(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    elif cu_seqlens_q is not None or cu_seqlens_k is not None:
        raise RefusedError(
            "cu_seqlens_q and cu_seqlens_k must be given together: pack both Q and the keys, or neither, and give the "
            "number of tokens that count as seqused_q and seqused_k"
        )
    return words | used_words(seqused_q, seqused_k)


def descale_words(
    of: Tensor, q: Tensor | None, k: Tensor | None, v: Tensor | None, cache: Tensor | None = None
) -> dict[str, Any]:
    """The factors of 8-bit tensors; if one of them is given, the others default to 1. Queries are of the type of `of`,
    and so are keys and values, unless there is a cache."""
    given = {name: factor for name, factor in (("q", q), ("k", k), ("v", v)) if factor is not None}
    if not given:
        return {}
    keys = of if cache is None else cache
    small = [name for name, tensor in (("q", of), ("k", keys), ("v", keys)) if tensor.element_size() == 1]
    for name in given:
        if name not in small:
            which, tensor = ("q", of) if name == "q" or cache is None else ("k_cache", keys)
            raise invalid(f"{which} is {tensor.dtype}, and {name}_descale is only for 8-bit tensors: leave it out")
    one = torch.ones_like(next(iter(given.values())))
    return {f"descale_{name}": given.get(name, one) for name in small}


def unpacked(name: str, packed: Tensor, axis: int, parts: int) -> tuple[Tensor, ...]:
    """Q, K and V, or K and V, from one tensor that has them along `axis`, followed by heads and d."""
    if packed.dim() != axis + 3 or packed.shape[axis] != parts:
        rows = "b, s" if axis == 2 else "tokens"
        raise invalid(f"{name} has shape {list(packed.shape)}; it must be [{rows}, {parts}, heads, d]")
    return packed.unbind(axis)


def with_rows_contiguous(*tensors: Tensor) -> list[Tensor]:
    """flash_attn copies tensors that are not contiguous in their last dimension."""
    return [with_contiguous_rows(tensor) for tensor in tensors]
