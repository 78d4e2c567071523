"""The attention function that models call."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...errors import RefusedError
from ..attention import attention
from ..sdpa import mask_option, with_contiguous_rows
from .arguments import refuse_unknown, score_options
from .choices import keys_of_blocks, keys_of_indices, limited
from .mask import Mask
from .packing import attention_of_sequences, is_by_position, mask_of_sequences, same_sequence, sequences_of
from .sinks import with_sink_as_key


def attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    sinks: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    is_causal: bool | None = None,
    output_attentions: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """query: [b, hq, q, d]; key: [b, hk, kv, d]; value: [b, hk, kv, dv]. The result is [b, q, hq, dv].

    The visible keys are exactly those of attention_mask: one made by `making`, or a model's own, booleans or numbers,
    [1|b, 1|hq, 1|q, kv]; without a mask a query sees every key.

    s_aux: the learned sinks [hq]; sinks: one for each query, [b, hq, q, 1]. position_bias: numbers that are added to
    the scores. All may require a gradient.
    indices, [b, q, n], and block_indices, [b, 1|hk, q, n]: the keys, or blocks of keys, that each query chose.
    cu_seq_lens_q and cu_seq_lens_k: where sequences begin in the tokens of the batch, one after the other, and where
    the last one ends; max_length_q and max_length_k: bounds of their lengths. is_causal is read only with these, and
    only if there is no mask.

    Raises RefusedError for any other argument, unless `arguments.HARMLESS` knows it.
    """
    refuse_unknown(others)
    if output_attentions:
        raise RefusedError(
            "output_attentions asks for the weights of attention, which are never in memory here: use "
            "attn_implementation='eager' for them"
        )
    rows, keys = query.shape[2], key.shape[2]
    mask, bias = attention_mask, position_bias
    if indices is not None:
        mask = limited(mask, keys_of_indices(indices, keys))
    if block_indices is not None:
        mask = limited(mask, keys_of_blocks(block_indices, module.indexer.block_size, keys, query.shape[1]))
    sequences = sequences_of(cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k)
    if sequences is not None and mask is None:
        mask = mask_of_sequences(is_causal, query.shape[0], rows, keys)
    if sequences is not None and not (is_by_position(mask) and bias is None and sinks is None):
        mask, sequences = limited(mask, same_sequence(sequences, query.shape[0], rows, keys)), None
    if sinks is not None:
        key, value, mask, bias = with_sink_as_key(key, value, mask, bias, sinks)

    options = options_of(mask, query, key.shape[2])
    if bias is not None:
        options["bias"] = with_contiguous_rows(bias + options["bias"] if "bias" in options else bias)
    options |= score_options(dropout, scaling, softcap)
    if s_aux is not None:
        options["sink"] = s_aux.float()
    q, k, v = (with_contiguous_rows(x).transpose(1, 2) for x in (query, key, value))
    if sequences is not None:
        return attention_of_sequences(q, k, v, sequences, options), None
    return attention(q, k, v, **options), None


def options_of(mask: Mask | Tensor | None, query: Tensor, keys: int) -> dict[str, Any]:
    if mask is None:
        return {}
    if isinstance(mask, Mask):
        if mask.options is not None and mask.shape[2:] == (query.shape[2], keys):
            return dict(mask.options)
        mask = mask.booleans()  # which raises an error if rows or keys do not fit
    return dict(mask_option(mask, query, keys))
