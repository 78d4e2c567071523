"""One call: the common path of all functions of flash_attn."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..torch import attention
from ..torch.randomness import seed
from ..words import dropout_words
from . import flavour
from .probabilities import s_dmask
from .words import is_on, with_rows_contiguous


def lse_as_flash_attn(lse: Tensor, keys: int, cuda: bool) -> Tensor:
    """Rows that see no key have LSE = -inf here; the CUDA library returns +inf, and so do all of them if K is
    empty. Those libraries drop a gradient of LSE."""
    lse = lse.detach()
    return lse.masked_fill(lse == -math.inf, math.inf) if cuda or keys == 0 else lse


def attend(q: Tensor, k: Tensor, v: Tensor, words: dict[str, Any], dropout_p: float, return_attn_probs: bool) -> Any:
    """out, or (out, softmax_lse, S_dmask)."""
    if is_on("return_attn_probs", return_attn_probs):
        return attend_with_state(q, k, v, words, dropout_p, True)[:3]
    q, k, v = with_rows_contiguous(q, k, v)
    return attention(q, k, v, **words, **dropout_words(dropout_p))


def attend_with_state(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    words: dict[str, Any],
    dropout_p: float,
    probabilities: bool,
    memory: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out, softmax_lse, S_dmask (empty unless it is requested and there is dropout), and rng_state (int64 [2]: seed and
    offset).

    memory: where out is written.
    """
    q, k, v = with_rows_contiguous(q, k, v)
    given = {**words, **dropout_words(dropout_p)}
    if memory is not None:
        given["out"] = memory
    seed(given, q, None)
    state = given.get("seed")
    out, lse, *kept = attention(q, k, v, lse=True, dropout_mask=probabilities and state is not None, **given)
    lse = lse_as_flash_attn(lse, words.get("sk", k.shape[1]), flavour.chosen() == "cuda")
    if state is None:
        state = q.new_zeros(2, dtype=torch.int64)
    return out, lse, s_dmask(q, k, kept[0], words) if kept else q.new_empty(0), state
