"""FlashAttention-4's arguments as options of Regard, and the messages for those without kernels."""

from __future__ import annotations

import operator
from typing import Any

from torch import Tensor

from ...errors import RefusedError, invalid
from ...words import quote
from .. import words as flash_words


def read_window(window_size: Any) -> tuple[int, int]:
    """(left, right), with -1 for unbounded.

    A negative side moves the window away from the diagonal in FlashAttention-4, except (-1, -1), which is unbounded.
    """
    try:
        left, right = (None if side is None else operator.index(side) for side in window_size)
        if (left, right) == (-1, -1):
            left = right = None
        if min(left or 0, right or 0) < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise invalid(
            f"window_size is {quote(window_size)}; it must be a pair (left, right) of whole numbers from 0, or None "
            "for an unbounded side"
        ) from None
    return -1 if left is None else left, -1 if right is None else right


def score_words(
    softmax_scale: float | None,
    causal: bool,
    window_size: Any,
    learnable_sink: Tensor | None,
    softcap: float | None,
    deterministic: bool,
) -> dict[str, Any]:
    if softcap is not None and softcap < 0:
        raise invalid(f"softcap is {softcap}; it must be a cap above 0, or 0 for none")
    window = read_window(window_size)
    words = flash_words.score_words(softmax_scale, causal, window, softcap or 0.0, None, deterministic)
    if learnable_sink is not None:
        words["sink"] = learnable_sink.float()  # exact for every type that it can have
    return words


def sequence_words(
    q: Tensor,
    k: Tensor,
    cu_seqlens: tuple[Tensor | None, Tensor | None],
    seqused: tuple[Tensor | None, Tensor | None],
    longest: tuple[int | None, int | None],
) -> dict[str, Any]:
    (of_q, of_k), (sq, sk) = cu_seqlens, longest
    if of_q is None and of_k is None:
        return flash_words.used_words(*seqused)
    sq = q.shape[0] if sq is None else sq
    sk = k.shape[0] if sk is None else sk
    return flash_words.sequence_words(of_q, of_k, *seqused, sq, sk)


def refuse_functions(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise RefusedError(
                f"{name} is for score functions and block masks, which are not taken here: describe the mask with "
                "causal and window_size, or pass score or keep to regard.torch.attention"
            )


def refuse_pages(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise RefusedError(
                f"{name} is for pages and selected keys, which are not taken here: use flash_attn_with_kvcache of "
                "flash_attn_interface, or pass K and V directly"
            )
