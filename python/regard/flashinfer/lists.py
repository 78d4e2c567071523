"""The page lists of a plan: where they are stored, and a bound of the length of a sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import invalid
from ..torch.tensors import refuse_others
from .words import integers


class Buffers(NamedTuple):
    """The caller's memory for a wrapper that CUDA graphs use; a plan copies into it."""

    indptr: Tensor
    indices: Tensor
    last_page_len: Tensor


class Lists(NamedTuple):
    """The pages of each sequence, on the wrapper's device."""

    indptr: Tensor
    indices: Tensor
    last_page_len: Tensor
    most: int  # pages that a sequence can have

    def options(self, page_size: int) -> dict[str, Any]:
        return {
            "page_offsets": self.indptr,
            "page_list": self.indices,
            "last_page_lengths": self.last_page_len,
            "sk": self.most * page_size,
        }


def buffers_of(use_cuda_graph: bool, **named: Any) -> Buffers | None:
    """named: the arguments in the order of `Buffers`. Without graphs their values do not matter, as in FlashInfer."""
    refuse_others(**named)
    if not use_cuda_graph:
        return None
    for name, value in named.items():
        if value is None:
            raise invalid(f"{name} is missing: with use_cuda_graph=True plan copies into the memory that you give")
        integers(name, value)
    buffers = Buffers(*named.values())
    if buffers.indptr.shape[0] != buffers.last_page_len.shape[0] + 1:
        of_indptr, _, of_last = named
        raise invalid(
            f"{of_indptr} has {buffers.indptr.shape[0]} numbers and {of_last} {buffers.last_page_len.shape[0]}; they "
            "must be [b+1] and [b]"
        )
    return buffers


def lists_of(
    device: torch.device,
    buffers: Buffers | None,
    non_blocking: bool,
    longest: int | None,
    **named: Any,
) -> Lists:
    """named: the arguments in the order of `Lists`. longest: a bound that the caller gives, in pages. Without it the
    host reads where sequences begin, except for graphs, whose later plans may have any."""
    indptr, indices, last_page_len = (integers(name, value) for name, value in named.items())
    of_indptr, of_indices, of_last = named
    batch, listed = last_page_len.shape[0], indices.shape[0]
    if indptr.shape[0] != batch + 1:
        raise invalid(
            f"{of_indptr} has {indptr.shape[0]} numbers and {of_last} {batch}; they must be [b+1], cumulative, and [b]"
        )
    if buffers is None:
        found = most_between(of_indptr, indptr.cpu(), listed, of_indices) if longest is None or indptr.is_cpu else 0
        refuse_longer(of_indptr, found, longest)
        found = found if longest is None else longest
        return moved_lists(Lists(indptr, indices, last_page_len, found), device, non_blocking)
    if indptr.is_cpu:
        refuse_longer(of_indptr, most_between(of_indptr, indptr, listed, of_indices), longest)
    if buffers.last_page_len.shape[0] != batch:
        raise invalid(
            f"{of_last} has {batch} numbers, and the wrapper {buffers.last_page_len.shape[0]} sequences: with "
            "use_cuda_graph=True their number is fixed, so use a wrapper for each"
        )
    if listed > buffers.indices.shape[0]:
        raise invalid(
            f"{of_indices} has {listed} pages, and the wrapper's buffer room for {buffers.indices.shape[0]}: give the "
            "wrapper a longer one"
        )
    buffers.indptr.copy_(indptr, non_blocking=non_blocking)
    buffers.last_page_len.copy_(last_page_len, non_blocking=non_blocking)
    buffers.indices[:listed].copy_(indices, non_blocking=non_blocking)
    most = max(buffers.indices.shape[0], 1) if longest is None else longest
    return Lists(buffers.indptr, first(buffers.indices, batch * most), buffers.last_page_len, most)


def moved_lists(lists: Lists, device: torch.device, non_blocking: bool) -> Lists:
    """The lists on the device, with a power of two as the bound of the pages of a sequence: calls of similar lengths
    share a plan."""
    indptr, indices, last_page_len, found = lists
    most = 1 << (max(found, 1) - 1).bit_length()
    return Lists(
        moved(indptr, device, non_blocking),
        moved(first(indices, last_page_len.shape[0] * most), device, non_blocking),
        moved(last_page_len, device, non_blocking),
        most,
    )


def first(indices: Tensor, most: int) -> Tensor:
    return indices if indices.shape[0] <= most else indices[:most]


def refuse_longer(name: str, found: int, longest: int | None) -> None:
    if longest is not None and found > longest:
        raise invalid(
            f"{name} gives a sequence {found} pages, more than the {longest} that max_sequence_kv allows: give a "
            "larger one"
        )


def most_between(name: str, indptr: Tensor, end: int | None = None, of_end: str = "") -> int:
    """The largest difference of neighbours in cumulative numbers on the CPU, which must not reach past `end`."""
    numbers = indptr.numpy()
    counts = numbers[1:] - numbers[:-1]  # numpy.diff takes several times as long
    if numbers.size == 0 or numbers[0] != 0 or counts.min(initial=0) < 0:
        raise invalid(f"{name} is not cumulative: it must be int32 [b+1], start at 0 and never decrease")
    if end is not None and numbers[-1] > end:
        raise invalid(f"{name} ends at {numbers[-1]}, past the {end} of {of_end}")
    return int(counts.max(initial=0))


def moved(tensor: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
    return tensor if tensor.device == device else tensor.to(device, non_blocking=non_blocking)
