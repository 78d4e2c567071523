"""Continuous batching (`generate_batch`): packed queries of several requests, and the keys that its cache has gathered
for each of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..attention import attention_varlen
from ..sdpa import with_contiguous_rows
from .arguments import refuse_unknown, score_options

# What continuous batching passes along, and why ignoring it changes nothing.
_HARMLESS: dict[str, str] = {
    "read_index": "the cache has gathered the keys",
    "write_index": "the cache has taken the new ones",
    "is_causal": "every request is causal",
    "logits_indices": "the rows that are sampled from are cut off later",
    "logits_processor_args": "processors of logits read it",
}


def paged_attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sliding_window: int | None = None,
    *,
    cu_seq_lens_q: Tensor,
    cu_seq_lens_k: Tensor,
    max_length_q: int,
    max_length_k: int,
    **others: Any,
) -> tuple[Tensor, None]:
    """query: [1, hq, tokens, d]; key, value: [1, hk, keys, d]. The result is [1, tokens, hq, d].

    cu_seq_lens_q and cu_seq_lens_k say where requests begin. attention_mask, which continuous batching makes of them
    and of sliding_window, is not read: each token sees its own request's keys up to itself.
    """
    refuse_unknown({name: value for name, value in others.items() if name not in _HARMLESS})
    options: dict[str, Any] = {"causal": True}
    if sliding_window is not None:
        options["window"] = (sliding_window - 1, 0)
    options |= score_options(dropout, scaling, softcap)
    sinks = getattr(module, "sinks", None) if s_aux is None else s_aux
    if sinks is not None:
        options["sink"] = sinks.float()
    q, k, v = (with_contiguous_rows(x)[0].transpose(0, 1) for x in (query, key, value))
    return attention_varlen(q, k, v, cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k, **options)[None], None
