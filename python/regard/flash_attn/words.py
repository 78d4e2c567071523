"""flash_attn's arguments in Regard's words."""

from __future__ import annotations

import operator
from typing import Any

from torch import Tensor

from ..errors import invalid
from ..words import PAIR


def read_window(window_size: Any) -> tuple[int, int]:
    """(left, right), of whole numbers or of a tensor; negative is unbounded."""
    try:
        left, right = window_size
        return max(-1, operator.index(left)), max(-1, operator.index(right))
    except (TypeError, ValueError):
        raise invalid(f"window_size is {window_size!r}; it must be {PAIR}") from None


def score_words(
    softmax_scale: float | None,
    causal: bool,
    window_size: Any,
    softcap: float,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
) -> dict[str, Any]:
    """What is said about the scores, and nothing about what is at its default."""
    words: dict[str, Any] = {}
    if softmax_scale is not None:
        words["scale"] = softmax_scale
    if causal:
        words["causal"] = True
    window = read_window(window_size)
    if window != (-1, -1):
        words["window"] = window
    if softcap > 0:
        words["softcap"] = softcap
    if alibi_slopes is not None:
        words["alibi"] = alibi_slopes
    if deterministic:
        words["deterministic"] = True
    return words


def packed_words(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int) -> dict[str, Any]:
    sq, sk = (int(longest) if isinstance(longest, Tensor) else longest for longest in (max_seqlen_q, max_seqlen_k))
    return {"offsets_q": cu_seqlens_q, "offsets_k": cu_seqlens_k, "sq": sq, "sk": sk}


def used_words(seqused_q: Tensor | None, seqused_k: Tensor | None) -> dict[str, Any]:
    """How many tokens of each sequence count, where that is said."""
    return {name: used for name, used in (("lengths_q", seqused_q), ("lengths_k", seqused_k)) if used is not None}


def unpacked(name: str, packed: Tensor, axis: int, parts: int) -> tuple[Tensor, ...]:
    """Q, K and V, or K and V, of one tensor that has them along `axis`, with heads and d behind it."""
    if packed.dim() != axis + 3 or packed.shape[axis] != parts:
        rows = "b, s" if axis == 2 else "tokens"
        raise invalid(f"{name} has shape {list(packed.shape)}; it must be [{rows}, {parts}, heads, d]")
    return packed.unbind(axis)


def with_rows_contiguous(*tensors: Tensor) -> list[Tensor]:
    """flash_attn copies what is not contiguous in its last dimension."""
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]
