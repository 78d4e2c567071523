"""`flashinfer.page`: new keys and values written into pages."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid
from ..torch import append
from ..torch.tensors import is_eager, refuse_without_strides
from ..words import count
from .caches import unpacked
from .words import heads_first, integers

__all__ = ["append_paged_kv_cache", "append_paged_mla_kv_cache", "get_batch_indices_positions", "get_seq_lens"]


def append_paged_kv_cache(
    append_key: Tensor,
    append_value: Tensor,
    batch_indices: Tensor,
    positions: Tensor,
    paged_kv_cache: Tensor | tuple[Tensor, Tensor],
    kv_indices: Tensor,
    kv_indptr: Tensor,
    kv_last_page_len: Tensor,
    kv_layout: str = "NHD",
) -> None:
    """Writes append_key and append_value, [tokens, heads, d], into the cache: token i becomes row positions[i] of
    sequence batch_indices[i]; where that is negative, the token is not written.

    kv_indices, kv_indptr and kv_last_page_len are those of the sequences with their new tokens.
    """
    hnd = heads_first(kv_layout)
    refuse_without_strides(append_key=append_key, append_value=append_value)
    integers("kv_last_page_len", kv_last_page_len)
    k, v = unpacked(paged_kv_cache, hnd)
    slots = _slots(
        integers("batch_indices", batch_indices),
        integers("positions", positions),
        integers("kv_indices", kv_indices),
        integers("kv_indptr", kv_indptr),
        k.shape[1],
        k.shape[0] * k.shape[1] > 2**31,
    )
    tokens = slots.shape[0]
    if append_key.dim() != 3 or append_value.dim() != 3 or append_key.shape[0] != tokens:
        raise invalid(
            f"append_key has shape {list(append_key.shape)}, append_value {list(append_value.shape)} and batch_indices "
            f"{tokens} numbers; they must be [tokens, heads, d], each, and [tokens]"
        )
    if tokens:
        append(k, v, append_key.detach(), append_value.detach(), slots=slots)


def append_paged_mla_kv_cache(
    append_ckv: Tensor,
    append_kpe: Tensor,
    batch_indices: Tensor,
    positions: Tensor,
    ckv_cache: Tensor | None,
    kpe_cache: Tensor | None,
    kv_indices: Tensor,
    kv_indptr: Tensor,
    kv_last_page_len: Tensor,
) -> None:
    """`append_paged_kv_cache` for a latent cache in two tensors: append_ckv, [tokens, head_dim_ckv], is written into
    ckv_cache, [pages, page, head_dim_ckv], and append_kpe, [tokens, head_dim_kpe], into kpe_cache."""
    refuse_without_strides(append_ckv=append_ckv, append_kpe=append_kpe, ckv_cache=ckv_cache, kpe_cache=kpe_cache)
    assert ckv_cache is not None and kpe_cache is not None
    integers("kv_last_page_len", kv_last_page_len)
    if not ckv_cache.dim() == kpe_cache.dim() == 3 or ckv_cache.shape[:2] != kpe_cache.shape[:2]:
        raise invalid(
            f"ckv_cache has shape {list(ckv_cache.shape)} and kpe_cache {list(kpe_cache.shape)}; they must be [pages, "
            "page, head_dim_ckv] and [pages, page, head_dim_kpe]"
        )
    slots = _slots(
        integers("batch_indices", batch_indices),
        integers("positions", positions),
        integers("kv_indices", kv_indices),
        integers("kv_indptr", kv_indptr),
        ckv_cache.shape[1],
        ckv_cache.shape[0] * ckv_cache.shape[1] > 2**31,
    )
    tokens = slots.shape[0]
    if append_ckv.dim() != 2 or append_kpe.dim() != 2 or not tokens == append_ckv.shape[0] == append_kpe.shape[0]:
        raise invalid(
            f"append_ckv has shape {list(append_ckv.shape)}, append_kpe {list(append_kpe.shape)} and batch_indices "
            f"{tokens} numbers; they must be [tokens, head_dim_ckv], [tokens, head_dim_kpe] and [tokens]"
        )
    if tokens:
        new = torch.cat((append_ckv.detach(), append_kpe.detach()), dim=-1)[:, None]
        append(ckv_cache.unsqueeze(2), None, new, None, k_rope=kpe_cache.unsqueeze(2), slots=slots)


def _slots(batch_indices: Tensor, positions: Tensor, indices: Tensor, indptr: Tensor, page: int, wide: bool) -> Tensor:
    """The row of each token, counted over all pages; wide: whether that needs 64 bits."""
    if batch_indices.shape != positions.shape:
        raise invalid(
            f"batch_indices has {batch_indices.shape[0]} numbers and positions {positions.shape[0]}; both have one for "
            "each token"
        )
    skipped = batch_indices < 0
    if indices.shape[0] == 0 or indptr.shape[0] < 2:
        if not bool(skipped.all()):
            raise invalid(
                "kv_indices has no pages, and there are tokens to be written: give the pages of each sequence"
            )
        return batch_indices
    # Few operators, as each layer of a model calls this; the sequence -1 is read as the last one.
    of_page = positions if page == 1 else positions // page
    if batch_indices.is_cpu and is_eager(batch_indices):
        _refuse_beyond(batch_indices, of_page, indptr)
    places = indptr[batch_indices].add_(of_page).clamp_(0, indices.shape[0] - 1)
    pages = indices.index_select(0, places)
    if wide:
        pages = pages.to(torch.int64)
    slots = pages if page == 1 else torch.add(positions % page, pages, alpha=page)
    return slots.masked_fill_(skipped, -1)


def _refuse_beyond(batch_indices: Tensor, of_page: Tensor, indptr: Tensor) -> None:
    """On a CPU the values can be checked. of_page: the number of a token's page within its sequence."""
    counts = indptr.diff()
    sequence = batch_indices.clamp(0, counts.shape[0] - 1)
    there = (batch_indices < counts.shape[0]) & (of_page >= 0) & (of_page < counts[sequence])
    wrong = (batch_indices >= 0) & ~there
    if bool(wrong.any()):
        token = int(wrong.to(torch.uint8).argmax())
        raise invalid(
            f"token {token} belongs to none of the pages of sequence {int(batch_indices[token])}, of {counts.shape[0]} "
            "sequences: kv_indptr and kv_indices must include the pages of new tokens"
        )


def get_batch_indices_positions(
    append_indptr: Tensor,
    seq_lens: Tensor,
    nnz: int,
    batch_indices: Tensor | None = None,
    positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequence and the position of each of nnz packed tokens, int32, which are the last of their sequences.

    append_indptr: int32 [b+1], where the new tokens of each sequence begin; seq_lens: [b], the lengths with them.
    Tokens past the last sequence have the sequence -1 and the position 0. batch_indices and positions: memory for both.
    """
    indptr = integers("append_indptr", append_indptr)
    refuse_without_strides(seq_lens=seq_lens)
    tokens = count("nnz", nnz, 0)
    if seq_lens.dim() != 1 or seq_lens.dtype.is_floating_point or indptr.shape[0] != seq_lens.shape[0] + 1:
        raise invalid(
            f"append_indptr has {indptr.shape[0]} numbers and seq_lens is {seq_lens.dtype} of shape "
            f"{list(seq_lens.shape)}; they must be [b+1] and whole numbers [b]"
        )
    for name, memory in (("batch_indices", batch_indices), ("positions", positions)):
        if memory is not None and integers(name, memory).shape[0] != tokens:
            raise invalid(f"{name} has {memory.shape[0]} numbers; it must have nnz, {tokens}")
    index = torch.arange(tokens, dtype=torch.int32, device=indptr.device)
    ends = indptr[1:]
    sequence = torch.searchsorted(ends, index, right=True, out_int32=True)
    if not ends.shape[0]:
        found, position = torch.full_like(index, -1), torch.zeros_like(index)
    else:
        beyond = sequence == ends.shape[0]
        last = sequence.clamp(max=ends.shape[0] - 1)
        shift = (seq_lens.to(indptr.device, torch.int32) - ends).index_select(0, last)
        found, position = sequence.masked_fill(beyond, -1), (index + shift).masked_fill_(beyond, 0)
    return (
        found if batch_indices is None else batch_indices.copy_(found),
        position if positions is None else positions.copy_(position),
    )


def get_seq_lens(kv_indptr: Tensor, kv_last_page_len: Tensor, page_size: int) -> Tensor:
    """The length of each sequence from its pages and the tokens in its last one."""
    indptr, last = integers("kv_indptr", kv_indptr), integers("kv_last_page_len", kv_last_page_len)
    if indptr.shape[0] != last.shape[0] + 1:
        raise invalid(
            f"kv_indptr has {indptr.shape[0]} numbers and kv_last_page_len {last.shape[0]}; they must be [b+1] and [b]"
        )
    found: Tensor = (indptr.diff() - 1).clamp_(min=0) * count("page_size", page_size) + last
    return found
