"""Keys and values in pages: [pages, page, hk, d], [slots, hk, d], or K [pages, hk, d/x, page, x] and
V [pages, hk, page/x, dv, x], where x elements have 16 bytes.

The pages of each sequence are in a table [b, n], or in one list of all sequences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import sequences_between, whole
from ..torch.tensors import refuse_others, refuse_without_strides, zero
from .attend import attend
from .raw import Results, forward
from .varlen import by_sequence
from .words import descale_options, score_options


class Pages(NamedTuple):
    """Which pages each sequence has, and how many tokens are in them: by a table, or else by a list."""

    kv_indptr: Tensor | None
    kv_page_indices: Tensor | None
    kv_last_page_lens: Tensor | None
    block_table: Tensor | None
    seqlen_k: Tensor | None


class Factors(NamedTuple):
    """The factors of 8-bit tensors: one for each tensor, or [pages, hk, 2] for K and V of each page."""

    q_descale: Tensor | None
    k_descale: Tensor | None
    v_descale: Tensor | None
    kv_block_descale: Tensor | None


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
    gen: torch.Generator | None = None,
) -> Results:
    """`mha_batch_prefill_func`, with `out` to write to and the generator that dropout draws from."""
    k, v, options = prepared(
        (q, k, v),
        (cu_seqlens_q, max_seqlen_q, max_seqlen_k),
        Pages(kv_indptr, kv_page_indices, kv_last_page_lens, block_table, seqlen_k),
        Factors(q_descale, k_descale, v_descale, kv_block_descale),
        softmax_scale=softmax_scale,
        causal=is_causal,
        window_size=(window_size_left, window_size_right, sink_size),
        sink_ptr=sink_ptr,
        soft_cap=logits_soft_cap,
        alibi_slopes=alibi_slopes,
        dropout_p=dropout_p,
    )
    if bias is not None:
        options["bias"] = by_sequence(bias, q, options)
    if zero_tensors:
        zero(out)
    return forward((q, k, v), options, return_softmax_lse, return_dropout_randval, out, gen)


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
) -> Any:
    """Attention of packed queries, q [tokens, hq, d] with cu_seqlens_q, to keys and values in pages.

    kv_page_indices: int32, the pages of sequence after sequence, which begin at kv_indptr, int32 [b+1];
    kv_last_page_lens: int32 [b], the tokens in each last page. With block_table, int32 [b, n], and seqlen_k, int32 [b],
    these say it instead. sink_size: first tokens that stay visible left of a window. q_descale, k_descale, v_descale:
    one float32; or kv_block_descale, float32 [pages, hk, 2], for K and V of each page.

    Returns out, or (out, lse [hq, tokens]), followed by S_dmask with return_attn_probs.
    """
    k, v, options = prepared(
        (q, k, v),
        (cu_seqlens_q, max_seqlen_q, max_seqlen_k),
        Pages(kv_indptr, kv_page_indices, kv_last_page_lens, block_table, seqlen_k),
        Factors(q_descale, k_descale, v_descale, kv_block_descale),
        softmax_scale=softmax_scale,
        causal=causal,
        window_size=(*window_size, sink_size) if isinstance(window_size, (tuple, list)) else window_size,
        sink_ptr=sink_ptr,
        soft_cap=logits_soft_cap,
        alibi_slopes=alibi_slopes,
        dropout_p=dropout_p,
        deterministic=deterministic,
    )
    if out is not None:
        options["out"] = out
    return attend(q, k, v, options, return_lse, return_attn_probs)


def prepared(
    tensors: tuple[Tensor, Tensor, Tensor],
    sequences: tuple[Tensor, int, int],
    pages: Pages,
    descale: Factors,
    **of_scores: Any,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """K and V with four dimensions, and all options. sequences: cu_seqlens_q, max_seqlen_q and max_seqlen_k."""
    q, k, v = tensors
    refuse_without_strides(q=q, k=k, v=v)
    refuse_others(**pages._asdict(), **descale._asdict())
    options = score_options(**of_scores)
    k, v, of_pages = page_options(k, v, *sequences, pages)
    return k, v, options | of_pages | factor_options(q, k, descale)


def page_options(
    k: Tensor, v: Tensor, cu_seqlens_q: Tensor, max_seqlen_q: int, max_seqlen_k: int, pages: Pages
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """K and V with four dimensions, and where their rows lie."""
    if not k.dim() == v.dim() in (3, 4, 5):
        raise invalid(
            f"k has shape {list(k.shape)} and v {list(v.shape)}; pages are [pages, page, heads, d], [slots, heads, d] "
            "or, vectorized, [pages, heads, d/x, page, x] and [pages, heads, page/x, d, x]"
        )
    options: dict[str, Any] = {"offsets_q": cu_seqlens_q, "sq": whole("max_seqlen_q", max_seqlen_q)}
    sk = whole("max_seqlen_k", max_seqlen_k)
    if k.dim() == 3:
        k, v = k[:, None], v[:, None]
    elif k.dim() == 5:
        k, v = k.flatten(-2), v.flatten(-2)
        options["kv_layout"] = "vectorized"
    x = 16 // k.element_size()
    page = k.shape[3] // x if "kv_layout" in options else k.shape[1]
    of_tokens = _table_options(pages, sk, page) if pages.block_table is not None else _list_options(pages, sk, page)
    return k, v, {**options, **of_tokens}


def _table_options(pages: Pages, sk: int, page: int) -> dict[str, Any]:
    table, lengths = pages.block_table, pages.seqlen_k
    assert table is not None
    if lengths is None or table.dim() != 2:
        raise invalid(
            f"block_table has shape {list(table.shape)}; it must be [b, pages of a sequence], and seqlen_k [b], "
            "the length of each sequence, must be given with it"
        )
    sk = min(sk, table.shape[1] * page)
    return {"page_table": table[:, : -(-sk // max(page, 1))], "lengths_k": lengths, "sk": sk}


def _list_options(pages: Pages, sk: int, page: int) -> dict[str, Any]:
    offsets, indices, last = pages.kv_indptr, pages.kv_page_indices, pages.kv_last_page_lens
    if pages.seqlen_k is not None:
        raise invalid("seqlen_k is the length of sequences in a block_table, which is not given: give it as well")
    if offsets is None or indices is None:
        raise invalid(
            "kv_indptr and kv_page_indices are not both given: they say which pages each sequence has, int32 [b+1] and "
            "int32; or give block_table and seqlen_k"
        )
    batch = sequences_between("kv_indptr", offsets)
    if indices.dim() != 1:
        raise invalid(
            f"kv_page_indices has shape {list(indices.shape)}; it must be one list, int32 [pages of all sequences]"
        )
    if last is None:
        if page != 1:
            raise invalid(
                f"kv_last_page_lens is missing: with pages of {page} tokens it says how many the last one has"
            )
        last = torch.ones(batch, dtype=torch.int32, device=offsets.device)
    most = batch * -(-sk // max(page, 1))
    return {"page_offsets": offsets, "page_list": indices[:most], "last_page_lengths": last, "sk": sk}


def factor_options(q: Tensor, k: Tensor, descale: Factors) -> dict[str, Any]:
    of_q, of_k, of_v, of_pages = descale
    if of_pages is None:
        return descale_options(q, of_q, of_k, of_v, cache=k)
    if of_k is not None or of_v is not None:
        raise invalid("kv_block_descale replaces k_descale and v_descale: leave them out")
    if k.element_size() > 1:
        raise invalid(f"kv_block_descale is for 8-bit pages, and k is {k.dtype}: leave it out")
    if of_pages.dim() != 3 or of_pages.shape[2] != 2:
        raise invalid(f"kv_block_descale has shape {list(of_pages.shape)}; it must be [pages, heads of K, 2]")
    options: dict[str, Any] = {"descale": "page", "descale_k": of_pages[..., 0], "descale_v": of_pages[..., 1]}
    if q.element_size() == 1:
        options["descale_q"] = of_pages.new_ones(1) if of_q is None else of_q.reshape(1)
    elif of_q is not None:
        raise invalid(f"q_descale is for 8-bit queries, and q is {q.dtype}: leave it out")
    return options
