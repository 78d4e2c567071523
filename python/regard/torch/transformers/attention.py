"""The attention function that models call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import RefusedError
from ..attention import attention
from ..sdpa import mask_option, with_contiguous_rows
from .mask import Mask


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool | None = None,
    **_: Any,  # of other implementations; sliding windows are part of the mask
) -> tuple[Tensor, None]:
    """query: [b, hq, q, d]; key: [b, hk, kv, d]; value: [b, hk, kv, dv]. The result is [b, q, hq, dv].

    attention_mask: as `making` made it, or a model's own: booleans or numbers, [1|b, 1|hq, 1|q, kv]. s_aux: the learned
    sinks [hq]. position_bias: numbers that are added to the scores. Both may require a gradient.
    """
    if output_attentions:
        raise RefusedError(
            "output_attentions asks for the weights of attention, which are never in memory here: use "
            "attn_implementation='eager' for them"
        )
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    options = options_of(attention_mask, query, key, causal)
    if position_bias is not None:
        bias = position_bias + options["bias"] if "bias" in options else position_bias
        options["bias"] = with_contiguous_rows(bias)
    if dropout:
        options["dropout"] = dropout
    if scaling is not None:
        options["scale"] = scaling
    if softcap is not None:
        options["softcap"] = softcap
    if s_aux is not None:
        options["sink"] = s_aux.float()
    q, k, v = (with_contiguous_rows(x).transpose(1, 2) for x in (query, key, value))
    return attention(q, k, v, **options), None


def options_of(mask: Mask | Tensor | None, query: Tensor, key: Tensor, causal: bool) -> dict[str, Any]:
    if isinstance(mask, Mask):
        return dict(mask.options)
    if mask is not None:
        return dict(mask_option(mask, query, key.shape[2]))
    rows = query.shape[2]
    if not causal or rows == 1:  # one row is the newest token, which sees all before it
        return {}
    return {"causal": True if rows == key.shape[2] else "top_left"}  # a cache of fixed size is empty behind the rows
