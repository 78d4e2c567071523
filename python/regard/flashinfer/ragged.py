"""Packed queries of each sequence, and packed keys."""

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
from .lists import most_between, moved
from .masks import flat_mask
from .packed import PackedWrapper, queries_of
from .scores import invariance, score_options
from .words import integers, refuse, type_of, word_of


class BatchPrefillWithRaggedKVCacheWrapper(PackedWrapper):
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
        return self.run(q, k, v, return_lse=True)
