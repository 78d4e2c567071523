"""`flashinfer.prefill`: any number of queries of each sequence, packed."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.tensors import refuse_others, refuse_without_strides
from .attend import Memory, Planned, Result, Scales, attend, memory_for, refuse_other_tensors, scaled
from .caches import unpacked
from .decode import invariance, refuse_other_window, with_scores
from .lists import buffers_of, first, lists_of, most_between, moved
from .masks import bits_of, flat_mask
from .words import count, heads_first, integers, refuse, refuse_other_backends, score_options, type_of, word_of
from .wrapper import Wrapper

__all__ = [
    "BatchPrefillWithPagedKVCacheWrapper",
    "BatchPrefillWithRaggedKVCacheWrapper",
    "single_prefill_with_kv_cache",
    "single_prefill_with_kv_cache_return_lse",
]


class Queries(NamedTuple):
    """Packed queries, as the host knows them."""

    indptr: Tensor  # on the CPU
    rows: int
    longest: int

    @property
    def lengths(self) -> numpy.ndarray:
        return numpy.diff(self.indptr.numpy()).astype(numpy.int64)


def queries_of(qo_indptr: Any) -> Queries:
    indptr = integers("qo_indptr", qo_indptr).cpu()
    longest = most_between("qo_indptr", indptr)
    return Queries(indptr, int(indptr[-1]), longest)


class _Prefill(Wrapper):
    """What both wrappers of packed queries do: queries in fixed memory, masks, scores and results."""

    _qo_indptr: Tensor | None
    _rows: int  # of the queries
    # With use_cuda_graph, what later plans may not exceed: the rows of the first plan, and the most of a sequence; the
    # memory of the first plan with a mask, and the keys that it has room for.
    _most_rows: int | None = None
    _longest = 0
    _bits: Tensor | None = None
    _most_keys = 0

    def _take_buffers(self, qo_indptr_buf: Any, custom_mask_buf: Any, mask_indptr_buf: Any) -> None:
        """Masks become bits in memory of the wrapper, so that the two buffers for them are not used."""
        refuse_others(qo_indptr_buf=qo_indptr_buf, custom_mask_buf=custom_mask_buf, mask_indptr_buf=mask_indptr_buf)
        if self._use_cuda_graph and qo_indptr_buf is None:
            raise invalid(
                "qo_indptr_buf is missing: with use_cuda_graph=True plan copies into the memory that you give"
            )
        self._qo_indptr = integers("qo_indptr_buf", qo_indptr_buf) if self._use_cuda_graph else None

    def _query_options(self, given: Tensor, queries: Queries, most: int | None, non_blocking: bool) -> dict[str, Any]:
        """most: the caller's bound for the queries of a sequence."""
        self._rows = queries.rows
        longest = queries.longest if most is None else max(queries.longest, most)
        if self._qo_indptr is None:
            return {"offsets_q": moved(given, self.device, non_blocking), "sq": longest}
        if self._qo_indptr.shape != given.shape:
            raise invalid(
                f"qo_indptr has {given.shape[0]} numbers, and the wrapper's buffer {self._qo_indptr.shape[0]}: with "
                "use_cuda_graph=True the number of sequences is fixed, so use a wrapper for each"
            )
        if self._most_rows is None:
            self._most_rows, self._longest = queries.rows, longest
        for name, now, most_of_first in (
            ("in all", queries.rows, self._most_rows),
            ("in a sequence", longest, self._longest),
        ):
            if now > most_of_first:
                raise invalid(
                    f"qo_indptr has {now} queries {name}, and the first plan had {most_of_first}: with "
                    "use_cuda_graph=True later plans have no more, so plan the most first, or give "
                    "max_token_per_sequence then"
                )
        self._qo_indptr.copy_(given, non_blocking=non_blocking)
        return {"offsets_q": self._qo_indptr, "sq": self._longest}

    def _mask_options(
        self, mask: Tensor, queries: numpy.ndarray, keys: numpy.ndarray, options: dict[str, Any], bound: int | None
    ) -> dict[str, Any]:
        """bound: the caller's, for the keys of a sequence."""
        if not self._use_cuda_graph:
            return {"bits": bits_of(mask, queries, keys, options["sq"], options["sk"], self.device)}
        longest = max(int(keys.max(initial=1)), 1)
        if self._bits is None:
            self._most_keys = 1 << (longest - 1).bit_length() if bound is None else bound
        if longest > self._most_keys:
            raise invalid(
                f"custom_mask has {longest} keys in a sequence, and the first one had room for {self._most_keys}: with "
                "use_cuda_graph=True later masks are no larger, so plan the largest first, or give max_sequence_kv then"
            )
        bits = bits_of(mask, queries, keys, options["sq"], self._most_keys, self.device)
        self._bits = bits if self._bits is None else self._bits.copy_(bits)
        return {"bits": self._bits, "sk": self._most_keys}

    def _remember(
        self, planned: Planned, *, causal: bool, window_left: int, logits_soft_cap: float | None, sm_scale: float | None
    ) -> None:
        self._planned, self._pages = planned, None
        self._causal, self._window_left, self._sm_scale = causal, window_left, sm_scale
        self._logits_soft_cap = 0.0 if logits_soft_cap is None else logits_soft_cap

    def _set_scores(self, causal: Any, **scores: Any) -> None:
        planned = self._has_plan()
        causal = is_on("causal", causal) and "bits" not in planned.options
        options = score_options(planned.q_tail[1], causal=causal, heads=planned.q_tail[0], device=self.device, **scores)
        of_scores = {name: scores[name] for name in ("window_left", "logits_soft_cap", "sm_scale")}
        self._remember(with_scores(planned, options), causal=causal, **of_scores)

    def _run(
        self, q: Tensor, k: Tensor, v: Tensor, scales: Scales, sinks: Tensor | None, out: Any, lse: Any, return_lse: Any
    ) -> Result:
        planned = self._has_plan()
        refuse_other_tensors(planned, q, k, v)
        if q.shape[0] != self._rows:
            raise invalid(
                f"q has {q.shape[0]} tokens, and qo_indptr ended at {self._rows}: plan again for other tokens"
            )
        memory = memory_for(q, v.shape[-1], planned.o_type, out, lse, return_lse)
        options, times = scaled(planned, scales, k, sinks)
        return attend(q, k, v, options, planned.out, memory, times)


class BatchPrefillWithPagedKVCacheWrapper(_Prefill):
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
        tokens in each last page, new ones included. custom_mask: bool, for each query of each sequence its keys;
        packed_custom_mask: the same in bits; with either, causal does not count.

        max_token_per_sequence and max_sequence_kv are bounds. fixed_split_size and disable_split_kv ask for results
        that do not depend on the batch. block_tables, seq_lens and seq_lens_q say what the lists say, and are not read.
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
        """The same, with the LSE."""
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


class BatchPrefillWithRaggedKVCacheWrapper(_Prefill):
    """Attention of packed queries to packed keys and values."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: Tensor | None = None,
        kv_indptr_buf: Tensor | None = None,
        custom_mask_buf: Tensor | None = None,
        mask_indptr_buf: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """With use_cuda_graph=True, `plan` copies into the buffers."""
        refuse(jit_args=jit_args, jit_kwargs=jit_kwargs)
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, backend)
        if self._hnd:
            raise invalid("kv_layout is 'HND'; packed keys and values are [tokens, heads, d], which is 'NHD'")
        self._take_buffers(qo_indptr_buf, custom_mask_buf, mask_indptr_buf)
        refuse_others(kv_indptr_buf=kv_indptr_buf)
        if self._use_cuda_graph and kv_indptr_buf is None:
            raise invalid(
                "kv_indptr_buf is missing: with use_cuda_graph=True plan copies into the memory that you give"
            )
        self._kv_indptr = integers("kv_indptr_buf", kv_indptr_buf) if self._use_cuda_graph else None

    def plan(
        self,
        qo_indptr: Tensor,
        kv_indptr: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int | None = None,
        custom_mask: Tensor | None = None,
        packed_custom_mask: Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
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
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        seq_lens: Tensor | None = None,
        seq_lens_q: Tensor | None = None,
        max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None,
        v_indptr: Tensor | None = None,
        o_indptr: Tensor | None = None,
    ) -> None:
        """qo_indptr and kv_indptr: int32 [b+1], where the queries and keys of each sequence begin; the other arguments
        are those of BatchPrefillWithPagedKVCacheWrapper."""
        refuse(
            prefix_len_ptr=prefix_len_ptr,
            token_pos_in_items_ptr=token_pos_in_items_ptr,
            token_pos_in_items_len=token_pos_in_items_len,
            max_item_len_ptr=max_item_len_ptr,
            v_indptr=v_indptr,
            o_indptr=o_indptr,
        )
        refuse_others(seq_lens=seq_lens, seq_lens_q=seq_lens_q)
        is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
        hq, hk = count("num_qo_heads", num_qo_heads), count("num_kv_heads", num_kv_heads)
        d = count("head_dim_qk", head_dim_qk)
        dv = d if head_dim_vo is None else count("head_dim_vo", head_dim_vo)
        q_type = type_of("q_data_type", q_data_type)
        kv_type = q_type if kv_data_type is None else type_of("kv_data_type", kv_data_type)
        given = torch.bfloat16 if o_data_type is None and q_type.itemsize == 1 else o_data_type  # as in FlashInfer
        o_type = q_type if given is None else type_of("o_data_type", given)
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
        queries, keys = queries_of(qo_indptr), integers("kv_indptr", kv_indptr).cpu()
        longest = most_between("kv_indptr", keys)
        if max_sequence_kv is not None:
            longest = max(longest, count("max_sequence_kv", max_sequence_kv))
        if qo_indptr.shape != kv_indptr.shape:
            raise invalid(
                f"qo_indptr has {qo_indptr.shape[0]} numbers and kv_indptr {kv_indptr.shape[0]}; both must be [b+1]"
            )
        most = None if max_token_per_sequence is None else count("max_token_per_sequence", max_token_per_sequence)
        of_queries = self._query_options(qo_indptr, queries, most, non_blocking)
        self._keys = int(keys[-1])
        if self._kv_indptr is None:
            offsets = moved(kv_indptr, self.device, non_blocking)
        else:
            if self._kv_indptr.shape != kv_indptr.shape:
                raise invalid(
                    f"kv_indptr has {kv_indptr.shape[0]} numbers, and the wrapper's buffer {self._kv_indptr.shape[0]}: "
                    "with use_cuda_graph=True the number of sequences is fixed, so use a wrapper for each"
                )
            offsets = self._kv_indptr.copy_(kv_indptr, non_blocking=non_blocking)
        batch = offsets.shape[0] - 1
        parts = invariance(fixed_split_size, disable_split_kv) or self._parts(batch, of_queries["sq"], hq, hk)
        options = {**of_queries, "offsets_k": offsets, "sk": longest, **scores, **parts}
        if masked:
            lengths = numpy.diff(keys.numpy()).astype(numpy.int64)
            mask = flat_mask(custom_mask, packed_custom_mask, queries.lengths * lengths)
            assert mask is not None
            options |= self._mask_options(mask, queries.lengths, lengths, options, max_sequence_kv)
        planned = Planned(q_type, kv_type, o_type, (hq, d), (hk, d), (hk, dv), options, word_of(o_type, q_type))
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
        k: Tensor,
        v: Tensor,
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        o_scale: float | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        kv_cache_sf: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> Result:
        """q: [tokens, hq, d]; k and v: [tokens, hk, d]. Returns out, or (out, lse [tokens, hq] in base 2)."""
        refuse(args=args, o_scale=o_scale, kv_cache_sf=kv_cache_sf)
        if enable_pdl is not None:
            is_on("enable_pdl", enable_pdl)
        refuse_without_strides(q=q, k=k, v=v)
        planned = self._has_plan()
        if k.dim() == 3 and k.shape[0] < self._keys:
            raise invalid(
                f"k has {k.shape[0]} tokens, and kv_indptr ended at {self._keys}: plan again for other tokens"
            )
        if self._use_cuda_graph and "bits" not in planned.options:
            planned.options["sk"] = k.shape[0]  # a bound that stays, whatever later plans say
        return self._run(q, k, v, Scales(q_scale, k_scale, v_scale), None, out, lse, return_lse)

    run_return_lse = functools.partialmethod(run, return_lse=True)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
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
        return self.run(q, k, v)

    def forward_return_lse(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
    ) -> Result:
        """The same, with the LSE."""
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
        return self.run(q, k, v, return_lse=True)


def single_prefill_with_kv_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor | None = None,
    scale_k: Tensor | None = None,
    scale_v: Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: Tensor | None = None,
    packed_custom_mask: Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,
    kv_cache_sf: tuple[Tensor, Tensor] | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Result:
    """Attention of one sequence: q [sq, hq, d]; k and v [sk, hk, d], or with kv_layout="HND" [hk, sk, d].

    custom_mask: bool [sq, sk]. Returns out, or (out, lse [sq, hq] in base 2).
    """
    refuse(scale_q=scale_q, scale_k=scale_k, scale_v=scale_v, kv_cache_sf=kv_cache_sf)
    refuse_without_strides(q=q, k=k, v=v)
    refuse_other_backends(backend)
    is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
    if q.dim() != 3 or k.dim() != 3 or v.dim() != 3:
        raise invalid(
            f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}; they must be [s, heads, d], or K "
            "and V [heads, s, d] (HND)"
        )
    if heads_first(kv_layout):
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    masked = custom_mask is not None or packed_custom_mask is not None
    options = score_options(
        q.shape[2],
        causal=is_on("causal", causal) and not masked,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        sm_scale=sm_scale,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        heads=q.shape[1],
        device=q.device,
    )
    queries, keys = (numpy.array([n], dtype=numpy.int64) for n in (q.shape[0], k.shape[0]))
    mask = flat_mask(custom_mask, packed_custom_mask, queries * keys)
    if mask is not None:
        options["bits"] = bits_of(mask, queries, keys, q.shape[0], k.shape[0], q.device)
    q_type = type_of("q", q.dtype)
    o_type = q_type if o_dtype is None else type_of("o_dtype", o_dtype)
    planned = Planned(q_type, type_of("k", k.dtype), o_type, (0, 0), (), (), options, word_of(o_type, q_type))
    options, times = scaled(planned, Scales(None, k_scale, v_scale), k, None)
    memory = Memory(None, None, is_on("return_lse", return_lse))
    return attend(q[None], k[None], v[None], options, planned.out, memory, times)


@functools.wraps(single_prefill_with_kv_cache)
def single_prefill_with_kv_cache_return_lse(*arguments: Any, **named: Any) -> Result:
    return single_prefill_with_kv_cache(*arguments, **{**named, "return_lse": True})
