"""`flashinfer.decode`: one query, or a few, of each sequence."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..flash_attn.words import is_on, whole
from ..torch.tensors import refuse_others, refuse_without_strides
from ..words import count
from .attend import Planned, Result, Scales, attend, memory_for, refuse_other_tensors, scaled
from .caches import unpacked
from .lists import buffers_of, lists_of
from .scores import invariance, refuse_other_window, score_options, with_scores
from .single import single_decode_with_kv_cache
from .words import refuse, type_of, word_of
from .wrapper import Wrapper

__all__ = [
    "BatchDecodeMlaWithPagedKVCacheWrapper",
    "BatchDecodeWithPagedKVCacheWrapper",
    "CUDAGraphBatchDecodeWithPagedKVCacheWrapper",
    "fast_decode_plan",
    "single_decode_with_kv_cache",
]


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    """Attention of q_len_per_req new queries of each sequence to its pages."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Tensor | None = None,
        paged_kv_indices_buffer: Tensor | None = None,
        paged_kv_last_page_len_buffer: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
    ) -> None:
        """With use_cuda_graph=True, `plan` copies into the three buffers, so that a graph that `run` was captured into
        can be replayed after another `plan`. use_tensor_cores has no effect here."""
        refuse(jit_args=jit_args)
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, backend)
        self._use_tensor_cores = is_on("use_tensor_cores", use_tensor_cores)
        self._buffers = buffers_of(
            self._use_cuda_graph,
            paged_kv_indptr_buffer=paged_kv_indptr_buffer,
            paged_kv_indices_buffer=paged_kv_indices_buffer,
            paged_kv_last_page_len_buffer=paged_kv_last_page_len_buffer,
        )
        self._q_len_per_req: int | None = None

    @property
    def use_tensor_cores(self) -> bool:
        return self._use_tensor_cores

    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *deprecated_positional_args: Any,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        window_right: int = 0,
        logits_soft_cap: float | None = None,
        q_data_type: str | torch.dtype | None = "float16",
        kv_data_type: str | torch.dtype | None = None,
        o_data_type: str | torch.dtype | None = None,
        data_type: str | torch.dtype | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: Tensor | None = None,
        seq_lens: Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        q_len_per_req: int = 1,
    ) -> None:
        """indices: int32, the pages of sequence after sequence, which begin at indptr, int32 [b+1]; last_page_len:
        int32 [b], the tokens in each last page, new ones included.

        fixed_split_size and disable_split_kv ask for results that do not depend on the batch. block_tables and
        seq_lens repeat what the lists say, and are not read.
        """
        refuse(deprecated_positional_args=deprecated_positional_args, window_right=whole("window_right", window_right))
        refuse_others(block_tables=block_tables, seq_lens=seq_lens)
        hq, hk = count("num_qo_heads", num_qo_heads), count("num_kv_heads", num_kv_heads)
        d, page = count("head_dim", head_dim), count("page_size", page_size)
        queries = count("q_len_per_req", q_len_per_req)
        if self._use_cuda_graph and self._q_len_per_req not in (None, queries):
            raise invalid(
                f"q_len_per_req is {queries}, and this wrapper was planned with {self._q_len_per_req}: with "
                "use_cuda_graph=True it is fixed, so use a wrapper for each"
            )
        q_type = type_of("q_data_type", data_type if q_data_type is None else q_data_type)
        kv = data_type if kv_data_type is None else kv_data_type
        kv_type = q_type if kv is None else type_of("kv_data_type", kv)
        o_type = q_type if o_data_type is None else type_of("o_data_type", o_data_type)
        scores = score_options(
            d,
            causal=queries > 1,
            one_query=queries == 1,
            pos_encoding_mode=pos_encoding_mode,
            window_left=window_left,
            logits_soft_cap=logits_soft_cap,
            sm_scale=sm_scale,
            rope_scale=rope_scale,
            rope_theta=rope_theta,
            heads=hq,
            device=self.device,
        )
        lists = lists_of(
            self.device,
            self._buffers,
            is_on("non_blocking", non_blocking),
            None,
            indptr=indptr,
            indices=indices,
            last_page_len=last_page_len,
        )
        batch = lists.last_page_len.shape[0]
        parts = invariance(fixed_split_size, disable_split_kv) or self._parts(batch, queries, hq, hk)
        options = {**lists.options(page), **scores, **parts}
        self._planned = Planned(
            q_type, kv_type, o_type, (hq, d), (page, hk, d), (page, hk, d), options, word_of(o_type, q_type)
        )
        self._batch, self._q_len_per_req = batch, queries
        self._most, self._pages = lists.most, None
        self._window_left, self._sm_scale = window_left, sm_scale
        self._logits_soft_cap = 0.0 if logits_soft_cap is None else logits_soft_cap

    begin_forward = plan

    def run(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: Tensor | None = None,
        q_len_per_req: int | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> Result:
        """q: [b * q_len_per_req, hq, d]. Returns out, or (out, lse [tokens, hq] in base 2)."""
        if args or skip_softmax_threshold_scale_factor is not None or kv_cache_sf is not None:
            refuse(
                args=args,
                skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
                kv_cache_sf=kv_cache_sf,
            )
        planned = self._has_plan()
        if enable_pdl is not None:
            is_on("enable_pdl", enable_pdl)
        if window_left is not None:
            refuse_other_window(window_left, self._window_left)
        refuse_without_strides(q=q)
        k, v = unpacked(paged_kv_cache, self._hnd)
        refuse_other_tensors(planned, q, k, v)
        if self._use_cuda_graph:
            planned = self._bounded(planned, k.shape[0], k.shape[1])
        queries = self._q_len_per_req or 1
        asked = queries if q_len_per_req is None else count("q_len_per_req", q_len_per_req)
        if q.shape[0] != self._batch * queries or asked != queries:
            raise invalid(
                f"q has {q.shape[0]} tokens, and the plan is for {self._batch} sequences of q_len_per_req={queries}: "
                "plan again for another number"
            )
        memory = memory_for(q, v.shape[3], planned.o_type, out, lse, return_lse)
        options, times = scaled(planned, Scales(q_scale, k_scale, v_scale), k, sinks)
        rows = q[:, None] if queries == 1 else q.unflatten(0, (self._batch, queries))
        return attend(rows, k, v, options, planned.out, memory, times)

    run_return_lse = functools.partialmethod(run, return_lse=True)

    def forward(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        pos_encoding_mode: str = "NONE",
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
    ) -> Result:
        """`run` with other scores than those of `plan`."""
        self._set_scores(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        return self.run(q, paged_kv_cache, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)

    def forward_return_lse(
        self,
        q: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor],
        pos_encoding_mode: str = "NONE",
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
    ) -> Result:
        """`forward`, with the LSE."""
        self._set_scores(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        return self.run(q, paged_kv_cache, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, return_lse=True)

    def _set_scores(
        self, mode: Any, window_left: Any, logits_soft_cap: Any, sm_scale: Any, rope_scale: Any, rope_theta: Any
    ) -> None:
        planned = self._has_plan()
        queries = self._q_len_per_req or 1
        self._planned = with_scores(
            planned,
            score_options(
                planned.q_tail[1],
                causal=queries > 1,
                one_query=queries == 1,
                pos_encoding_mode=mode,
                window_left=window_left,
                logits_soft_cap=logits_soft_cap,
                sm_scale=sm_scale,
                rope_scale=rope_scale,
                rope_theta=rope_theta,
                heads=planned.q_tail[0],
                device=self.device,
            ),
        )
        self._window_left, self._sm_scale = window_left, sm_scale
        self._logits_soft_cap = 0.0 if logits_soft_cap is None else logits_soft_cap


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """`BatchDecodeWithPagedKVCacheWrapper` with use_cuda_graph=True."""

    def __init__(
        self,
        workspace_buffer: Tensor,
        indptr_buffer: Tensor,
        indices_buffer: Tensor,
        last_page_len_buffer: Tensor,
        kv_layout: str = "NHD",
        use_tensor_cores: bool = False,
    ) -> None:
        super().__init__(
            workspace_buffer,
            kv_layout,
            True,
            use_tensor_cores,
            indptr_buffer,
            indices_buffer,
            last_page_len_buffer,
        )


class BatchDecodeMlaWithPagedKVCacheWrapper:
    """Refused: FlashInfer has replaced it by `BatchMLAPagedAttentionWrapper`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise RefusedError(
            "BatchDecodeMlaWithPagedKVCacheWrapper is not provided, as FlashInfer has replaced it: use "
            "flashinfer.mla.BatchMLAPagedAttentionWrapper, with q_pe rotated beforehand"
        )


def fast_decode_plan(
    self: BatchDecodeWithPagedKVCacheWrapper,
    indptr: Tensor,
    indices: Tensor,
    last_page_len: Tensor,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    page_size: int,
    pos_encoding_mode: str = "NONE",
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    q_data_type: str | torch.dtype | None = None,
    kv_data_type: str | torch.dtype | None = None,
    data_type: str | torch.dtype | None = None,
    sm_scale: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    non_blocking: bool = True,
    fixed_split_size: int | None = None,
    disable_split_kv: bool = False,
    q_len_per_req: int = 1,
    global_override_indptr_cpu: Tensor | None = None,
) -> None:
    """`plan` of a wrapper; programs put this function in its place. global_override_indptr_cpu: indptr on the CPU,
    which is read instead, so that a plan does not wait for the GPU."""
    refuse_others(global_override_indptr_cpu=global_override_indptr_cpu)
    self.plan(
        indptr if global_override_indptr_cpu is None else global_override_indptr_cpu,
        indices,
        last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim,
        page_size,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        q_data_type="float16" if q_data_type is None and data_type is None else q_data_type,
        kv_data_type=kv_data_type,
        data_type=data_type,
        sm_scale=sm_scale,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        non_blocking=non_blocking,
        fixed_split_size=fixed_split_size,
        disable_split_kv=disable_split_kv,
        q_len_per_req=q_len_per_req,
    )
