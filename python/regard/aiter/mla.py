"""`aiter.mla`: latent attention over pages of rows whose first columns are V."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from ..arrays import dtype_word
from ..errors import RefusedError, invalid
from ..flash_attn.words import is_on, sequences_between, soft_cap
from ..torch import attention
from ..torch.splits import splits_of_unknown_lengths
from ..torch.tensors import is_eager, refuse_others, refuse_without_strides, written
from ..words import count, number
from .words import descale_options


@torch.no_grad()
def mla_decode_fwd(
    q: Tensor,
    kv_buffer: Tensor,
    o: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_lens: Tensor,
    max_seqlen_q: int,
    page_size: int = 1,
    nhead_kv: int = 1,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    num_kv_splits: int | None = None,
    num_kv_splits_indptr: Tensor | None = None,
    work_meta_data: Tensor | None = None,
    work_indptr: Tensor | None = None,
    work_info_set: Tensor | None = None,
    reduce_indptr: Tensor | None = None,
    reduce_final_map: Tensor | None = None,
    reduce_partial_map: Tensor | None = None,
    q_scale: Tensor | None = None,
    kv_scale: Tensor | None = None,
    intra_batch_mode: bool = False,
    return_logits: bool = False,
    return_lse: bool = False,
    g_kv_indptr: Tensor | None = None,
    cp_world_size: int = 1,
    cp_rank: int = 0,
    causal: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Attention of packed queries, q [tokens, hq, d] with qo_indptr, int32 [b+1], to a latent cache, kv_buffer [pages,
    page_size, nhead_kv, d], written into o, [tokens, hq, dv]: V is the first dv columns of the cache.

    kv_indices: int32, the pages of sequence after sequence, which begin at kv_indptr, int32 [b+1]; kv_last_page_lens:
    int32 [b], the tokens in each last page. causal: the last query is the last token. sm_scale: 1/sqrt(d) by default.
    q_scale, kv_scale: the factors of 8-bit tensors, float32 of one number. num_kv_splits: the parts of each sequence on
    a GPU.

    With cp_world_size above 1 the pages, of one token each, hold this rank's share of each sequence: row j is token j *
    cp_world_size + cp_rank. g_kv_indptr, int32 [b+1], has the cumulative lengths of the whole sequences.

    work_…, reduce_…, num_kv_splits_indptr and intra_batch_mode are parts of a schedule, and not used: each call makes
    its own.

    Returns (o, lse): float32 [tokens, hq], natural, or None without return_lse. There are no partial results.
    """
    refuse_others(
        num_kv_splits_indptr=num_kv_splits_indptr,
        work_meta_data=work_meta_data,
        work_indptr=work_indptr,
        work_info_set=work_info_set,
        reduce_indptr=reduce_indptr,
        reduce_final_map=reduce_final_map,
        reduce_partial_map=reduce_partial_map,
        q_scale=q_scale,
        kv_scale=kv_scale,
        g_kv_indptr=g_kv_indptr,
    )
    is_on("intra_batch_mode", intra_batch_mode)
    if is_on("return_logits", return_logits):
        raise RefusedError("return_logits is True, and partial results are not kept: leave it out")
    _refuse_other_pages(kv_buffer, page_size, nhead_kv)
    options = _options(q, kv_buffer, o, qo_indptr, (kv_indptr, kv_indices, kv_last_page_lens), max_seqlen_q)
    options |= _score_options(sm_scale, logit_cap, num_kv_splits, q.is_cuda)
    options |= _factor_options(q, kv_buffer, q_scale, kv_scale)
    ranks, rank = count("cp_world_size", cp_world_size), count("cp_rank", cp_rank, 0)
    causal = is_on("causal", causal)
    if causal and ranks > 1:
        options["ranges"] = _rows_of_rank(q, qo_indptr, g_kv_indptr, ranks, rank, page_size)
    elif causal and options["sq"] > 1:
        options["causal"] = True
    lse = _attend(q, kv_buffer, o, options)
    return o, lse.T.contiguous() if is_on("return_lse", return_lse) else None


@torch.no_grad()
def mla_prefill_fwd(
    q: Tensor,
    kv_buffer: Tensor,
    o: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_lens: Tensor,
    max_seqlen_q: int,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    num_kv_splits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`mla_decode_fwd` for whole prompts, with causal=True. Returns (o, lse [tokens, 1, hq, 1])."""
    options = _options(q, kv_buffer, o, qo_indptr, (kv_indptr, kv_indices, kv_last_page_lens), max_seqlen_q)
    options |= _score_options(sm_scale, logit_cap, num_kv_splits, q.is_cuda)
    lse = _attend(q, kv_buffer, o, {**options, "causal": True})
    return o, lse.T.contiguous()[:, None, :, None]


def _options(
    q: Tensor, kv: Tensor, o: Tensor, qo_indptr: Tensor, lists: tuple[Tensor, Tensor, Tensor], max_seqlen_q: int
) -> dict[str, Any]:
    """Where queries and keys lie. lists: kv_indptr, kv_indices and kv_last_page_lens."""
    indptr, indices, last = lists
    refuse_without_strides(q=q, kv_buffer=kv, o=o, qo_indptr=qo_indptr, kv_indices=indices, kv_last_page_lens=last)
    batch = sequences_between("kv_indptr", indptr)
    if kv.dtype == torch.uint8:
        raise RefusedError(
            "kv_buffer is torch.uint8, which means rows that contain factors: only floating-point types are taken"
        )
    if q.dim() != 3 or kv.dim() != 4 or o.dim() != 3 or o.shape[:2] != q.shape[:2] or indices.dim() != 1:
        raise invalid(
            f"q has shape {list(q.shape)}, kv_buffer {list(kv.shape)}, o {list(o.shape)} and kv_indices "
            f"{list(indices.shape)}; they must be [tokens, hq, d], [pages, page_size, hk, d], [tokens, hq, dv] and [n]"
        )
    sq = count("max_seqlen_q", max_seqlen_q, 0)
    options: dict[str, Any] = {"offsets_q": qo_indptr, "sq": sq, "page_offsets": indptr, "last_page_lengths": last}
    # Calls of similar lengths share a plan; on a GPU the lengths are not read.
    longest = int(indptr.diff().max()) if batch and indptr.is_cpu and is_eager(q) else indices.shape[0]
    most = 1 << (max(longest, 1) - 1).bit_length()
    splits = splits_of_unknown_lengths(q.device, batch, sq, q.shape[1], max(kv.shape[2], 1))
    return {**options, "page_list": indices[: batch * most], "sk": most * kv.shape[1], **splits}


def _refuse_other_pages(kv_buffer: Tensor, page_size: int, nhead_kv: int) -> None:
    refuse_without_strides(kv_buffer=kv_buffer)
    said = count("page_size", page_size), count("nhead_kv", nhead_kv)
    if kv_buffer.dim() == 4 and tuple(kv_buffer.shape[1:3]) != said:
        raise invalid(
            f"page_size is {said[0]} and nhead_kv {said[1]}, and kv_buffer has shape {list(kv_buffer.shape)}; it must "
            "be [pages, page_size, nhead_kv, d]"
        )


def _score_options(sm_scale: float | None, logit_cap: float, num_kv_splits: int | None, on_gpu: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"softcap": soft_cap("logit_cap", logit_cap)}
    if sm_scale is not None:
        options["scale"] = number("sm_scale", sm_scale)
    if num_kv_splits is not None and count("num_kv_splits", num_kv_splits) and on_gpu:
        options["splits"] = num_kv_splits
    return {name: option for name, option in options.items() if option is not None}


def _factor_options(q: Tensor, kv: Tensor, q_scale: Tensor | None, kv_scale: Tensor | None) -> dict[str, Any]:
    for name, factor, tensor in (("q_scale", q_scale, q), ("kv_scale", kv_scale, kv)):
        if factor is not None and (factor.numel() != 1 or factor.dtype != torch.float32):
            raise invalid(
                f"{name} is {factor.dtype} of shape {list(factor.shape)}; it must be torch.float32 of one number"
            )
        if factor is not None and tensor.element_size() > 1:
            raise invalid(f"{name} is only for 8-bit tensors, and the tensor is {tensor.dtype}: leave it out")
    found = descale_options(q, q_scale, kv_scale, None, cache=kv)
    found.pop("descale_v", None)  # V is K
    return found


def _rows_of_rank(
    q: Tensor, qo_indptr: Tensor, g_kv_indptr: Tensor | None, ranks: int, rank: int, page_size: int
) -> Tensor:
    """The range of this rank's rows that each query sees, int32 [tokens, 2]: those of tokens up to its own."""
    if page_size != 1:
        raise RefusedError(f"cp_world_size is {ranks}, which needs pages of one token, and page_size is {page_size}")
    if g_kv_indptr is None or g_kv_indptr.shape != qo_indptr.shape or rank >= ranks:
        raise invalid(
            f"cp_world_size is {ranks} and cp_rank {rank}: cp_rank must be below it, and g_kv_indptr, the cumulative "
            "lengths of whole sequences, int32 [b+1], must be given"
        )
    token = torch.arange(q.shape[0], device=q.device)
    sequence = torch.searchsorted(qo_indptr[1:].contiguous(), token, right=True).clamp(max=max(len(qo_indptr) - 2, 0))
    position = g_kv_indptr.diff()[sequence] - qo_indptr[1:][sequence] + token
    rows = (position - rank + ranks).clamp(min=0) // ranks
    return torch.stack((torch.zeros_like(rows), rows), dim=-1).int()


def _attend(q: Tensor, kv: Tensor, o: Tensor, options: dict[str, Any]) -> Tensor:
    """Writes o, and returns the log-sum-exp [hq, tokens]."""
    if o.dtype != q.dtype:
        options["out"] = dtype_word("o", o)
    eager = is_eager(q)
    if eager:
        options["o" if "out" in options else "out"] = o.detach()
    found: Any
    if o.shape[2] == kv.shape[3]:  # all columns of K are V
        if "descale_k" in options:
            options["descale_v"] = options["descale_k"]
        found = attention(q, kv, kv, lse=True, **options)
    else:
        found = attention(q, kv, None, dv=o.shape[2], lse=True, **options)
    if eager:
        written(o)
    else:
        o.copy_(found[0])
    lse: Tensor = found[1]
    return lse


def _refused(name: str, why: str) -> Any:
    def function(*arguments: Any, **named: Any) -> NoReturn:
        raise RefusedError(f"{name} is not provided: {why}")

    function.__name__ = function.__qualname__ = name
    return function


_PARTS = (
    "it takes fp8 and bf16 parts with e8m0 factors of blocks: regard.torch.attention takes k and k_rope with float32 "
    "factors of 128 columns, descale_k"
)
mla_prefill_ps_fwd = _refused(
    "mla_prefill_ps_fwd", "regard.aiter.flash_attn_varlen_func computes prefill with keys that are not absorbed"
)
mla_decode_fwd_ds32 = _refused("mla_decode_fwd_ds32", _PARTS)
mla_v40_decode_fwd = _refused("mla_v40_decode_fwd", _PARTS)
mla_decode_fwd_v4_nm = _refused("mla_decode_fwd_v4_nm", _PARTS)
