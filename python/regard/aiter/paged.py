"""Paged keys and values, which no kernel here reads yet."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor

from ..errors import RefusedError


def refuse_pages(what: str) -> NoReturn:
    raise RefusedError(
        f"{what} has keys and values in pages, for which there are no kernels yet: gather the pages into packed "
        "sequences and call flash_attn_varlen_func"
    )


def mha_batch_prefill(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    kv_indptr: Tensor,
    kv_page_indices: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    logits_soft_cap: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    return_dropout_randval: bool,
    out: Tensor | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    kv_block_descale: Tensor | None = None,
    kv_last_page_lens: Tensor | None = None,
    block_table: Tensor | None = None,
    seqlen_k: Tensor | None = None,
    sink_ptr: Tensor | None = None,
    gen: Any = None,
) -> NoReturn:
    """Refused: there are no kernels for pages yet."""
    refuse_pages("mha_batch_prefill")


def mha_batch_prefill_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    kv_indptr: Tensor,
    kv_page_indices: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    logits_soft_cap: float = 0.0,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1),
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    out: Tensor | None = None,
    kv_last_page_lens: Tensor | None = None,
    block_table: Tensor | None = None,
    seqlen_k: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    kv_block_descale: Tensor | None = None,
    sink_ptr: Tensor | None = None,
    sink_size: int = 0,
) -> NoReturn:
    """Refused: there are no kernels for pages yet."""
    refuse_pages("mha_batch_prefill_func")
