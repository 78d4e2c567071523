"""One call: the common path of both functions of FlashAttention-4."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...errors import RefusedError
from ...torch import attention
from ..attend_v3 import with_qv
from ..words import with_rows_contiguous

_LATENT = 512  # if K and V are one tensor of this dimension, FlashAttention-4 assumes latent attention


def attend(
    q: Tensor, k: Tensor, v: Tensor, qv: Tensor | None, words: dict[str, Any], return_lse: bool
) -> tuple[Tensor, Tensor | None]:
    latent = k is v and v.shape[-1] == _LATENT
    if latent and qv is not None:
        raise RefusedError(
            f"k and v are the same tensor of dimension {_LATENT}, for which FlashAttention-4 ignores q or qv: pass "
            "only one of these, or another k"
        )
    q, k = with_qv(q, k, v, qv, scaled=False)
    q, k, v = with_rows_contiguous(q, k, v)
    if not return_lse:
        return attention(q, k, v, **words), None
    out, lse = attention(q, k, v, lse=True, **words)
    return out, lse if qv is None and not latent else lse.transpose(-1, -2)
