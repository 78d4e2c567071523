"""S_dmask, which flash_attn returns when probabilities are requested; it is for tests only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError
from ..torch import attention
from ..words import dropout_words
from . import flavour
from .varlen import pad, places
from .words import is_on

_KEYS_AT_ONCE = 256  # a head dimension that every kernel supports


def _rounded(length: int) -> int:
    return -(-length // 128) * 128


def _probabilities(q: Tensor, k: Tensor, words: dict[str, Any]) -> Tensor:
    """P without dropout, [b, hq, sq, sk] or packed [tq, hq, sk], from attention itself: if V is a unit vector for each
    key, O is the weight of each key."""
    varlen = "offsets_k" in words
    keys = words["sk"] if varlen else k.shape[1]
    units = torch.eye(keys, dtype=q.dtype, device=q.device)
    if varlen:
        units = units[places(words["offsets_k"], k.shape[0])[1]]
    blocks = []
    for first in range(0, keys, _KEYS_AT_ONCE):
        columns = units[:, first : first + _KEYS_AT_ONCE]
        v = columns[:, None, :].expand(*k.shape[:-1], columns.shape[-1])
        blocks.append(attention(q, k, v, **words).float())
    p = torch.cat(blocks, dim=-1)
    return p if varlen else p.transpose(1, 2)


def _signed(p: Tensor, kept: Tensor) -> Tensor:
    """Probabilities as the CUDA library returns them: relative to the largest of a row, negative where dropped."""
    largest = p.amax(dim=-1, keepdim=True)
    return torch.where(kept != 0, p, -p) / largest.clamp_min(torch.finfo(torch.float32).tiny)


def s_dmask(q: Tensor, k: Tensor, kept: Tensor, words: dict[str, Any]) -> Tensor:
    """kept: the dropout mask. words: options of the call, without its dropout."""
    if flavour.chosen() == "ck":
        return torch.where(kept != 0, 0, 255).to(torch.uint8)  # random bytes: only which ones are small has a meaning
    with torch.no_grad():
        p = _probabilities(q.detach(), k.detach(), words)
    if "offsets_q" in words:
        longest = words["sq"]
        p, kept = (pad(t, words["offsets_q"], longest).transpose(1, 2) for t in (p, kept.transpose(0, 1)))
    s = _signed(p, kept).to(q.dtype)
    sq, sk = s.shape[-2:]
    return torch.nn.functional.pad(s, (0, _rounded(sk) - sk, 0, _rounded(sq) - sq))


def refuse_probabilities(dropout_p: float, requested: bool) -> None:
    """Refuses S_dmask of keys in pages."""
    if dropout_words(dropout_p) and is_on("return_attn_probs", requested):
        raise RefusedError(
            "return_attn_probs with dropout does not go with block_table: leave one of them out, or gather the pages "
            "into packed K and V"
        )
