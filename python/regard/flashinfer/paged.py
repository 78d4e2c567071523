"""Packed queries of each sequence, and keys in pages."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.tensors import refuse_others, refuse_without_strides
from ..words import count
from .attend import Planned, Result, Scales
from .caches import unpacked
from .lists import buffers_of, first, lists_of
from .masks import flat_mask
from .packed import PackedWrapper, queries_of
from .scores import invariance, refuse_other_window, score_options
from .words import refuse, type_of, word_of


class BatchPrefillWithPagedKVCacheWrapper(PackedWrapper):
    """Attention of packed queries to the pages of their sequences."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: Tensor | None = None,
        paged_kv_indptr_buf: Tensor | None = None,
        paged_kv_indices_buf: Tensor | None = None,
        paged_kv_last_page_len_buf: Tensor | None = None,
        custom_mask_buf: Tensor | None = None,
        mask_indptr_buf: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """With use_cuda_graph=True, `plan` copies into the buffers, so that a graph that `run` was captured into can be
        replayed after another `plan`."""
        refuse(jit_args=jit_args, jit_kwargs=jit_kwargs)
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, backend)
        self._take_buffers(qo_indptr_buf, custom_mask_buf, mask_indptr_buf)
        self._buffers = buffers_of(
            self._use_cuda_graph,
            paged_kv_indptr_buf=paged_kv_indptr_buf,
            paged_kv_indices_buf=paged_kv_indices_buf,
            paged_kv_last_page_len_buf=paged_kv_last_page_len_buf,
        )

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: Tensor | None = None,
        packed_custom_mask: Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: str | torch.dtype = "float16",
        kv_data_type: str | torch.dtype | None = None,
        o_data_type: str | torch.dtype | None = None,
        non_blocking: bool = True,
        prefix_len_ptr: Tensor | None = None,
        token_pos_in_items_ptr: Tensor | None = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: Tensor | None = None,
        seq_lens: Tensor | None = None,
        seq_lens_q: Tensor | None = None,
        block_tables: Tensor | None = None,
        max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """qo_indptr: int32 [b+1], where the queries of each sequence begin. paged_kv_indices: int32, the pages of
        sequence after sequence, which begin at paged_kv_indptr, int32 [b+1]; paged_kv_last_page_len: int32 [b], the
        tokens in each last page, new ones included. custom_mask: bool, one value for each key of each
        query, sequence after sequence; packed_custom_mask: the same in bits. With either, causal has no effect.

        max_token_per_sequence and max_sequence_kv are bounds. fixed_split_size and disable_split_kv ask for results
        that do not depend on the batch. block_tables, seq_lens and seq_lens_q repeat the lists, and are not read.
        """
        refuse(
            prefix_len_ptr=prefix_len_ptr,
            token_pos_in_items_ptr=token_pos_in_items_ptr,
            token_pos_in_items_len=token_pos_in_items_len,
            max_item_len_ptr=max_item_len_ptr,
        )
        refuse_others(seq_lens=seq_lens, seq_lens_q=seq_lens_q, block_tables=block_tables)
        is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
        hq, hk = count("num_qo_heads", num_qo_heads), count("num_kv_heads", num_kv_heads)
        d, page = count("head_dim_qk", head_dim_qk), count("page_size", page_size)
        dv = d if head_dim_vo is None else count("head_dim_vo", head_dim_vo)
        q_type = type_of("q_data_type", q_data_type)
        kv_type = q_type if kv_data_type is None else type_of("kv_data_type", kv_data_type)
        o_type = q_type if o_data_type is None else type_of("o_data_type", o_data_type)
        masked = custom_mask is not None or packed_custom_mask is not None
        causal = is_on("causal", causal)
        scores = score_options(
            d,
            causal=causal and not masked,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            rope_scale=rope_scale,
            rope_theta=rope_theta,
            heads=hq,
            device=self.device,
        )
        non_blocking = is_on("non_blocking", non_blocking)
        queries = queries_of(qo_indptr)
        lists = lists_of(
            self.device,
            self._buffers,
            non_blocking,
            None if max_sequence_kv is None else -(-count("max_sequence_kv", max_sequence_kv) // page),
            paged_kv_indptr=paged_kv_indptr,
            paged_kv_indices=paged_kv_indices,
            paged_kv_last_page_len=paged_kv_last_page_len,
        )
        if qo_indptr.shape != paged_kv_indptr.shape:
            raise invalid(
                f"qo_indptr has {qo_indptr.shape[0]} numbers and paged_kv_indptr {paged_kv_indptr.shape[0]}; both must "
                "be [b+1]"
            )
        most = None if max_token_per_sequence is None else count("max_token_per_sequence", max_token_per_sequence)
        of_queries = self._query_options(qo_indptr, queries, most, non_blocking)
        batch = lists.last_page_len.shape[0]
        parts = invariance(fixed_split_size, disable_split_kv) or self._parts(batch, of_queries["sq"], hq, hk)
        self._most = lists.most
        options = {**lists.options(page), **of_queries, **scores, **parts}
        if masked:
            keys = _keys_of(paged_kv_indptr, paged_kv_last_page_len, page)
            mask = flat_mask(custom_mask, packed_custom_mask, queries.lengths * keys)
            assert mask is not None
            options |= self._mask_options(mask, queries.lengths, keys, options, max_sequence_kv)
            options["page_list"] = first(lists.indices, batch * -(-options["sk"] // page))
        planned = Planned(
            q_type, kv_type, o_type, (hq, d), (page, hk, d), (page, hk, dv), options, word_of(o_type, q_type)
        )
        self._remember(
            planned,
            causal=causal and not masked,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
        )

    begin_forward = plan

    def run(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        *args: Any,
        q_scale: float | Tensor | None = None,
        k_scale: float | Tensor | None = None,
        v_scale: float | Tensor | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: Tensor | None = None,
        kv_cache_sf: Tensor | tuple[Tensor, Tensor] | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        use_fp16_softmax: bool | None = None,
        uses_spcompress: bool | None = None,
    ) -> Result:
        """q: [tokens, hq, d]. Returns out, or (out, lse [tokens, hq] in base 2)."""
        refuse(
            args=args,
            kv_cache_sf=kv_cache_sf,
            skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
            use_fp16_softmax=use_fp16_softmax,
            uses_spcompress=uses_spcompress,
        )
        if enable_pdl is not None:
            is_on("enable_pdl", enable_pdl)
        planned = self._has_plan()
        if window_left is not None:
            refuse_other_window(window_left, self._window_left)
        refuse_without_strides(q=q)
        k, v = unpacked(paged_kv_cache, self._hnd)
        if self._use_cuda_graph:
            self._bounded(planned, k.shape[0], k.shape[1])
        return self._run(q, k, v, Scales(q_scale, k_scale, v_scale), sinks, out, lse, return_lse)

    run_return_lse = functools.partialmethod(run, return_lse=True)

    def forward(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
    ) -> Result:
        """`run` with other scores than those of `plan`."""
        is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
        self._set_scores(
            causal,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            rope_scale=rope_scale,
            rope_theta=rope_theta,
        )
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale)

    def forward_return_lse(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
    ) -> Result:
        """`forward`, with the LSE."""
        is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
        self._set_scores(
            causal,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            rope_scale=rope_scale,
            rope_theta=rope_theta,
        )
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale, return_lse=True)


def _keys_of(indptr: Tensor, last_page_len: Tensor, page: int) -> numpy.ndarray:
    """How many keys each sequence has."""
    pages = numpy.diff(indptr.cpu().numpy()).astype(numpy.int64)
    last = last_page_len.cpu().numpy()
    return numpy.where(pages > 0, (pages - 1) * page + last, 0)
