"""`flashinfer.mla`: latent attention, whose cache has two tensors: the columns that are K and V, and those for RoPE."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy
import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..flash_attn.words import is_on
from ..torch.tensors import is_eager, refuse_without_strides
from ..words import count, number
from .attend import Planned, Result, attend, factor_tensor, memory_for
from .lists import Lists, buffers_of, lists_of, most_between, moved_lists
from .packed import PackedWrapper, queries_of
from .words import integers, refuse, type_of, word_of

__all__ = [
    "BatchMLAPagedAttentionWrapper",
    "trtllm_batch_decode_sparse_mla_dsv4",
    "trtllm_batch_decode_with_kv_cache_mla",
    "xqa_batch_decode_with_kv_cache_mla",
]


class BatchMLAPagedAttentionWrapper(PackedWrapper):
    """Latent attention of packed queries to the pages of their sequences: decode, and prefill of new tokens."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        use_cuda_graph: bool = False,
        qo_indptr: Tensor | None = None,
        kv_indptr: Tensor | None = None,
        kv_indices: Tensor | None = None,
        kv_len_arr: Tensor | None = None,
        backend: str = "auto",
    ) -> None:
        """With use_cuda_graph=True, `plan` copies into the four buffers, so that a graph that `run` was captured into
        can be replayed after another `plan`. Into the buffer kv_len_arr it writes the number of tokens in each last
        page, which is what `run` reads, not the sequence lengths."""
        super().__init__(float_workspace_buffer, "NHD", use_cuda_graph, backend)
        self._take_buffers(qo_indptr, None, None, name="qo_indptr")
        self._buffers = buffers_of(
            self._use_cuda_graph, kv_indptr=kv_indptr, kv_indices=kv_indices, kv_len_arr=kv_len_arr
        )

    def plan(
        self,
        qo_indptr: Tensor,
        kv_indptr: Tensor,
        kv_indices: Tensor,
        kv_len_arr: Tensor,
        num_heads: int,
        head_dim_ckv: int,
        head_dim_kpe: int,
        page_size: int,
        causal: bool,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
        use_profiler: bool = False,
    ) -> None:
        """qo_indptr: int32 [b+1], where the queries of each sequence begin. kv_indices: int32, the pages of sequence
        after sequence, which begin at kv_indptr, int32 [b+1]; kv_len_arr: int32 [b], the length of each sequence, new
        tokens included. head_dim_kpe may be 0. causal: the last query is the last token."""
        refuse(use_profiler=is_on("use_profiler", use_profiler))
        heads, page = count("num_heads", num_heads), count("page_size", page_size)
        dv, rope = count("head_dim_ckv", head_dim_ckv), count("head_dim_kpe", head_dim_kpe, 0)
        q_type, kv_type = type_of("q_data_type", q_data_type), type_of("kv_data_type", kv_data_type)
        causal, scale = is_on("causal", causal), number("sm_scale", sm_scale)
        queries = queries_of(qo_indptr)
        used = _used_pages(kv_indptr, kv_indices, kv_len_arr, page)
        if self._buffers is None:
            lists = moved_lists(used, self.device, True)
        else:
            named = {"kv_indptr": used.indptr, "kv_indices": used.indices, "kv_len_arr": used.last_page_len}
            lists = lists_of(self.device, self._buffers, True, None, **named)
        if qo_indptr.shape != kv_indptr.shape:
            raise invalid(
                f"qo_indptr has {qo_indptr.shape[0]} numbers and kv_indptr {kv_indptr.shape[0]}; both must be [b+1]"
            )
        of_queries = self._query_options(qo_indptr, queries, None, True)
        parts = self._parts(lists.last_page_len.shape[0], of_queries["sq"], heads, 1)
        self._most = lists.most
        options: dict[str, Any] = {**lists.options(page), **of_queries, "scale": scale, **parts}
        if causal:
            options["causal"] = True
        planned = Planned(
            q_type, kv_type, q_type, (heads, dv), (page, dv), (page, rope), options, word_of(q_type, q_type)
        )
        self._remember(planned, causal=causal, window_left=-1, logits_soft_cap=None, sm_scale=scale)

    def run(
        self,
        q_nope: Tensor,
        q_pe: Tensor,
        ckv_cache: Tensor,
        kpe_cache: Tensor,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        profiler_buffer: Tensor | None = None,
        kv_len: Tensor | None = None,
        page_table: Tensor | None = None,
        return_lse_base_on_e: bool = False,
        o_scale: float | None = None,
        *,
        ckv_scale: float | None = None,
        ckv_scale_arr: Tensor | None = None,
        kpe_scale: float | None = None,
    ) -> Result:
        """q_nope: [tokens, heads, head_dim_ckv]; q_pe: [tokens, heads, head_dim_kpe]; ckv_cache: [pages, page,
        head_dim_ckv], whose rows are V and the first columns of K; kpe_cache: [pages, page, head_dim_kpe], the other
        columns of K. ckv_scale and kpe_scale: the factors of 8-bit caches; where they differ, q_pe is multiplied by
        their ratio and rounded to its type.

        Returns out, [tokens, heads, head_dim_ckv], or (out, lse [tokens, heads]), in base 2, or with
        return_lse_base_on_e=True in base e.
        """
        refuse(
            profiler_buffer=profiler_buffer,
            kv_len=kv_len,
            page_table=page_table,
            o_scale=o_scale,
            ckv_scale_arr=ckv_scale_arr,
        )
        planned = self._has_plan()
        refuse_without_strides(q_nope=q_nope, q_pe=q_pe, ckv_cache=ckv_cache, kpe_cache=kpe_cache)
        _refuse_other_shapes(planned, q_nope, q_pe, ckv_cache, kpe_cache)
        if q_nope.shape[0] != self._rows:
            raise invalid(
                f"q_nope has {q_nope.shape[0]} tokens, and qo_indptr ended at {self._rows}: plan again for other tokens"
            )
        if self._use_cuda_graph:
            planned = self._bounded(planned, ckv_cache.shape[0], ckv_cache.shape[1])
        memory = memory_for(q_nope, q_nope.shape[2], planned.o_type, out, lse, return_lse)
        natural = is_on("return_lse_base_on_e", return_lse_base_on_e)
        factors, ratio = _factors(ckv_cache, ckv_scale, kpe_scale)
        options, k = {**planned.options, **factors}, ckv_cache.unsqueeze(2)
        if not q_pe.shape[2]:  # all columns of K are V
            if factors:
                options["descale_v"] = factors["descale_k"]
            return attend(q_nope, k, k, options, planned.out, memory, None, natural)
        q = _joined(q_nope.detach(), q_pe.detach() if ratio == 1 else q_pe.detach() * ratio)
        options["k_rope"] = kpe_cache.detach().unsqueeze(2)
        return attend(q, k, None, options, planned.out, memory, None, natural)


def _joined(nope: Tensor, rope: Tensor) -> Tensor:
    """Q with the columns of both; no copy if they are already adjacent columns of one tensor."""
    if not is_eager(nope) or nope.stride() != rope.stride():
        return torch.cat((nope, rope), dim=-1)
    ends = nope.untyped_storage().data_ptr(), nope.storage_offset() + nope.shape[2]
    if ends != (rope.untyped_storage().data_ptr(), rope.storage_offset()):
        return torch.cat((nope, rope), dim=-1)
    return nope.as_strided((*nope.shape[:2], nope.shape[2] + rope.shape[2]), nope.stride())


def _used_pages(kv_indptr: Tensor, kv_indices: Tensor, kv_len_arr: Tensor, page: int) -> Lists:
    """The lists with only the pages that each sequence's length needs; callers may have reserved more."""
    indices = integers("kv_indices", kv_indices)
    indptr, lengths = (integers(*named).cpu() for named in (("kv_indptr", kv_indptr), ("kv_len_arr", kv_len_arr)))
    if indptr.shape[0] != lengths.shape[0] + 1:
        raise invalid(
            f"kv_indptr has {indptr.shape[0]} numbers and kv_len_arr {lengths.shape[0]}; they must be [b+1] and [b]"
        )
    most_between("kv_indptr", indptr, indices.shape[0], "kv_indices")
    begins, of_length = indptr.numpy(), lengths.numpy()
    listed, pages = begins[1:] - begins[:-1], -(-of_length // page)
    spare = listed - pages
    if min(spare.min(initial=0), of_length.min(initial=0)) < 0:
        i = int(((spare < 0) | (of_length < 0)).argmax())
        raise invalid(
            f"kv_len_arr[{i}] is {of_length[i]}, and kv_indptr gives that sequence {listed[i]} pages of page_size="
            f"{page}: it must be 0 to {listed[i] * page}"
        )
    if spare.any():
        places = numpy.concatenate([numpy.arange(begin, begin + n) for begin, n in zip(begins, pages)])
        indices = indices[torch.from_numpy(places).to(indices.device)]
        kv_indptr = torch.from_numpy(numpy.concatenate([[0], pages.cumsum()]).astype(numpy.int32))
    last = torch.from_numpy(of_length - (pages - 1) * page)  # not read where there are no pages
    return Lists(kv_indptr, indices, last, int(pages.max(initial=0)))


def _refuse_other_shapes(planned: Planned, q_nope: Tensor, q_pe: Tensor, ckv: Tensor, kpe: Tensor) -> None:
    if not q_nope.dtype == q_pe.dtype == planned.q_type or not ckv.dtype == kpe.dtype == planned.kv_type:
        raise invalid(
            f"q_nope is {q_nope.dtype}, q_pe {q_pe.dtype}, ckv_cache {ckv.dtype} and kpe_cache {kpe.dtype}; the "
            f"plan is for q_data_type={planned.q_type} and kv_data_type={planned.kv_type}: give plan the types of these"
        )
    (heads, dv), (page, rope) = planned.q_tail, planned.v_tail
    expected = ((q_nope.shape[0], heads, dv), (q_nope.shape[0], heads, rope), (ckv.shape[0], page, dv))
    if (q_nope.shape, q_pe.shape, ckv.shape, kpe.shape) != (*expected, (ckv.shape[0], page, rope)):
        raise invalid(
            f"q_nope has shape {list(q_nope.shape)}, q_pe {list(q_pe.shape)}, ckv_cache {list(ckv.shape)} and "
            f"kpe_cache {list(kpe.shape)}, and the plan is for [tokens, {heads}, {dv}], [tokens, {heads}, {rope}], "
            f"[n, {page}, {dv}] and [n, {page}, {rope}]: plan again with the heads, dimensions and page size of these "
            "tensors"
        )


def _factors(ckv: Tensor, ckv_scale: Any, kpe_scale: Any) -> tuple[dict[str, Tensor], float]:
    """The factor of both parts of the cache, and what q_pe is multiplied by for the second one."""
    given = {name: value for name, value in (("ckv_scale", ckv_scale), ("kpe_scale", kpe_scale)) if value is not None}
    if ckv.element_size() > 1:
        for name in given:
            raise invalid(f"{name} is given, but only 8-bit caches have factors, and ckv_cache is {ckv.dtype}")
        return {}, 1.0
    of_ckv, of_kpe = (number(name, given[name]) if name in given else None for name in ("ckv_scale", "kpe_scale"))
    if of_ckv is None or of_kpe is None:
        raise invalid(
            f"ckv_cache is {ckv.dtype}, and ckv_scale and kpe_scale are not both given: give the factors of both parts"
        )
    for name, value in (("ckv_scale", of_ckv), ("kpe_scale", of_kpe)):
        if not 0 < value < float("inf"):
            raise invalid(f"{name} is {value}; it must be finite and above 0")
    return {"descale_k": factor_tensor(of_ckv, ckv)}, of_kpe / of_ckv


def _refused(name: str) -> Any:
    def function(*arguments: Any, **named: Any) -> NoReturn:
        """Refused: BatchMLAPagedAttentionWrapper computes latent attention over pages."""
        raise RefusedError(
            f"{name} names kernels of other libraries with arguments of their own: BatchMLAPagedAttentionWrapper, and "
            "regard.torch.attention(q, cache, None, dv=512, page_table=...), compute latent attention over pages"
        )

    function.__name__ = function.__qualname__ = name
    return function


trtllm_batch_decode_with_kv_cache_mla = _refused("trtllm_batch_decode_with_kv_cache_mla")
trtllm_batch_decode_sparse_mla_dsv4 = _refused("trtllm_batch_decode_sparse_mla_dsv4")
xqa_batch_decode_with_kv_cache_mla = _refused("xqa_batch_decode_with_kv_cache_mla")
