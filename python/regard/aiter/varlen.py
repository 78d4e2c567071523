"""Packed sequences, [tokens, h, d]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..flash_attn.cached import paged_words
from ..flash_attn.words import whole
from ..torch.tensors import refuse_without_strides
from .attend import attend
from .words import descale_options, lengths_of, refuse_slopes, score_options


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int = 0,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: Sequence[int] = (-1, -1, 0),
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    how_v3_bf16_cvt: int = 1,
    block_table: Tensor | None = None,
    out: Tensor | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_k_padded: Tensor | None = None,
    sink_ptr: Tensor | None = None,
) -> Any:
    """q: [tokens, hq, d]; k: [tokens, hk, d]; v: [tokens, hk, dv]; bias: [tokens of q, max_seqlen_k].

    cu_seqlens_q and _k: cumulative logical lengths, [b+1]; with padding between sequences, cu_seqlens_*_padded say
    where the sequences begin. block_table: int32 [b, n], the pages of each sequence; k and v are then
    [pages, page, hk, d], without gradients. The other arguments are those of `flash_attn_func`.

    Returns out, or (out, lse [hq, tokens]), followed by S_dmask with return_attn_probs.
    """
    options = score_options(
        softmax_scale,
        causal,
        window_size,
        sink_ptr,
        soft_cap=logits_soft_cap,
        alibi_slopes=alibi_slopes,
        dropout_p=dropout_p,
        deterministic=deterministic,
    )
    padded = (cu_seqlens_q_padded, cu_seqlens_k_padded)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    options.update(sequence_options(k, sequences, min_seqlen_q, padded, block_table))
    if bias is not None:
        options["bias"] = by_sequence(bias, q, options)
    if out is not None:
        options["out"] = out
    return attend(q, k, v, options, return_lse, return_attn_probs)


def flash_attn_varlen_fp8_pertensor_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_descale: Tensor | None,
    k_descale: Tensor | None,
    v_descale: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int = 0,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: Sequence[int] = (-1, -1, 0),
    softmax_scale: float | None = None,
    sink_ptr: Tensor | None = None,
) -> Any:
    """`flash_attn_varlen_func` for 8-bit arrays and the factors that scale them; out is bfloat16."""
    options = score_options(softmax_scale, causal, window_size, sink_ptr, soft_cap=logits_soft_cap)
    options.update(varlen_options(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, min_seqlen_q))
    return attend(q, k, v, {**options, **descale_options(q, q_descale, k_descale, v_descale)})


def sequence_options(
    k: Tensor,
    sequences: tuple[Tensor, Tensor, int, int],
    min_seqlen_q: int,
    padded: tuple[Tensor | None, Tensor | None],
    block_table: Tensor | None,
) -> dict[str, Any]:
    """sequences: cu_seqlens_q and _k, max_seqlen_q and _k. Of packed sequences, or packed queries on pages."""
    if block_table is None:
        return varlen_options(*sequences, min_seqlen_q, padded)
    refuse_shortest(min_seqlen_q)
    if padded != (None, None):
        raise RefusedError(
            "block_table does not go with cu_seqlens_q_padded and cu_seqlens_k_padded: give queries without padding"
        )
    return paged_words(k, block_table, "block_table", sequences)


def refuse_shortest(min_seqlen_q: int) -> None:
    if whole("min_seqlen_q", min_seqlen_q):
        raise RefusedError(
            f"min_seqlen_q is {min_seqlen_q}, which would leave the rows of shorter sequences unwritten: give 0, and "
            "leave out the sequences that another call computes"
        )


def varlen_options(
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int = 0,
    padded: tuple[Tensor | None, Tensor | None] = (None, None),
) -> dict[str, Any]:
    """padded: where sequences begin if there is padding between them; the others then only say how long they are."""
    refuse_shortest(min_seqlen_q)
    options: dict[str, Any] = {
        "sq": whole("max_seqlen_q", max_seqlen_q),
        "sk": whole("max_seqlen_k", max_seqlen_k),
    }
    for side, lengths, starts in zip(("q", "k"), (cu_seqlens_q, cu_seqlens_k), padded):
        options[f"offsets_{side}"] = lengths if starts is None else starts
        if starts is not None:
            options[f"lengths_{side}"] = lengths_of(lengths)
    return options


def by_sequence(bias: Tensor, q: Tensor, options: dict[str, Any]) -> Tensor:
    """A bias with a row for each token as one with rows for each sequence, [b, 1, rows, keys]."""
    refuse_slopes(options.get("alibi"))
    refuse_without_strides(bias=bias)
    if bias.shape != (q.shape[0], options["sk"]):
        raise invalid(
            f"bias has shape {list(bias.shape)}; it must have a row for each token of q and a column for each of "
            f"max_seqlen_k keys, {[q.shape[0], options['sk']]}"
        )
    tokens = options["offsets_q"][:-1, None] + torch.arange(options["sq"], device=bias.device)
    return bias[tokens.clamp(max=bias.shape[0] - 1)][:, None]
