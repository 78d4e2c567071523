"""A KV cache that is sharded token by token: the token at position p is in row p // ranks of rank p % ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import torch as ours
from ..errors import RefusedError, invalid
from ..torch.tensors import refuse_types
from .groups import Group

_TAKEN = frozenset(
    ("scale", "softcap", "kv", "descale", "descale_q", "descale_k", "descale_v", "cache_index", "batch_invariant")
) | {"splits", "target", "family", "threads"}


def _rows(counts: Tensor, group: Group) -> Tensor:
    """How many of the positions below `counts` are on this rank."""
    return (counts - group.rank + group.ranks - 1).clamp(min=0) // group.ranks


@torch.compiler.disable
@torch.no_grad()
def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths_k: Tensor,
    *,
    group: Any = None,
    page_table: Tensor | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    sink: Tensor | None = None,
    lse: bool = False,
    **options: Any,
) -> Any:
    """Attention of a few tokens to a sharded KV cache: each rank attends to its rows, and the results of all ranks are
    gathered and merged.

    q: [b, sq, hq, d], the same on every rank; lengths_k: int32 [b], the lengths of the whole sequences, with these
    tokens. k, v: this rank's rows: pages [pages, page, heads, dim] with page_table, int32 [b, n], or [sequences, s,
    heads, dim]. The token at position p is in row p // ranks of rank p % ranks. A rank without rows adds nothing.

    causal and window=(left, right) refer to whole sequences, whose last token is the last query. sink, fp32 [hq], is
    applied once, not on each rank. group: a process group of torch.distributed, by default all processes. options:
    scale, softcap, kv, descale and its factors, cache_index, batch_invariant, splits, target, family, threads. Nothing
    is read on the host.

    Returns o, [b, sq, hq, dv], or (o, lse) with lse=True, the same on every rank. There are no gradients.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    refuse_types(q=q, k=k, v=v, lengths_k=lengths_k)
    _refuse_others("decode_attention", options)
    if q.dim() != 4 or lengths_k.shape != q.shape[:1]:
        raise invalid(
            f"q has shape {list(q.shape)} and lengths_k {list(lengths_k.shape)}; they must be [b, sq, hq, d] and [b]"
        )
    processes = Group(group)
    options |= {"lengths_k": _rows(lengths_k, processes).int()}
    if page_table is not None:
        options["page_table"] = page_table
    elif options.get("cache_index") is None:
        options["cache_index"] = torch.arange(q.shape[0], dtype=torch.int32, device=q.device)
    if sink is not None and processes.rank == 0:
        options["sink"] = sink
    if window is not None or (causal and q.shape[1] > 1):
        options["ranges"] = _ranges(lengths_k, q.shape[1], causal, window or (-1, -1), processes)
    o, found_lse = ours.attention(q, k, v, lse=True, **options)
    if processes.ranks > 1:
        parts = [processes.gather(x) for x in (o, found_lse)]
        o, found_lse = ours.merge(*[part.arrived() for part in parts])
    return (o, found_lse) if lse else o


def _ranges(lengths: Tensor, sq: int, causal: bool, window: tuple[int, int], group: Group) -> Tensor:
    """The range of this rank's rows that each query sees, from the positions that it sees."""
    left, right = window
    position = lengths[:, None] - sq + torch.arange(sq, device=lengths.device)
    last = position if causal or right >= 0 else lengths[:, None].expand(-1, sq)
    last = torch.minimum(last + (0 if causal or right < 0 else right) + 1, lengths[:, None])
    first = position - left if left >= 0 else torch.zeros_like(position)
    return torch.stack((_rows(first.clamp(min=0), group), _rows(last.clamp(min=0), group)), -1).int()


@torch.compiler.disable
@torch.no_grad()
def append(
    k: Tensor,
    v: Tensor,
    k_new: Tensor,
    v_new: Tensor,
    lengths_k: Tensor,
    *,
    group: Any = None,
    page_table: Tensor | None = None,
    cache_index: Tensor | None = None,
    **options: Any,
) -> None:
    """Writes this rank's share of the new keys and values into its rows of a sharded cache.

    k_new: [b, s_new, hk, d]; v_new: [b, s_new, hk, dv], the same on every rank; lengths_k: int32 [b], the lengths of
    the whole sequences before them, negative for a sequence that takes none. k, v, page_table and cache_index: as in
    `decode_attention`. Tokens beyond the rows of the cache are not written. options are those of `regard.torch.append`,
    such as rope with rope_cos and rope_sin, whose rows are positions in whole sequences. group: a process group of
    torch.distributed, by default all processes; nothing is sent.

    Raises InvalidError (a ValueError) for shapes other than these, an unknown option, or without
    torch.distributed.init_process_group; TypeError for what is not a tensor; and the errors of `regard.torch.append`.
    """
    refuse_types(k=k, v=v, k_new=k_new, v_new=v_new, lengths_k=lengths_k)
    refuse_types(**{name: x for name, x in (("page_table", page_table), ("cache_index", cache_index)) if x is not None})
    if k_new.dim() != 4 or lengths_k.shape != k_new.shape[:1]:
        raise invalid(
            f"k_new has shape {list(k_new.shape)} and lengths_k {list(lengths_k.shape)}; they must be "
            "[b, s_new, hk, d] and [b]"
        )
    if page_table is not None and cache_index is not None:
        raise invalid("page_table and cache_index both say where a sequence's rows are: give one of them")
    if "slots" in options:
        raise invalid(
            "slots is not an option here: where tokens go follows from lengths_k and page_table or cache_index"
        )
    for name, places, dimensions in (("page_table", page_table, 2), ("cache_index", cache_index, 1)):
        if places is not None and (places.dim() != dimensions or places.dtype not in (torch.int32, torch.int64)):
            raise invalid(
                f"{name} is {places.dtype} with shape {list(places.shape)}; it must be int32 "
                f"{'[b, pages]' if dimensions == 2 else '[b]'}"
            )
    processes = Group(group)
    position = lengths_k[:, None].long() + torch.arange(k_new.shape[1], device=k_new.device)
    row, size = position // processes.ranks, k.shape[1]
    is_ours = (position % processes.ranks == processes.rank) & (lengths_k[:, None] >= 0)
    if page_table is not None:
        is_ours &= row < page_table.shape[1] * size
        column = (row // size).clamp(0, page_table.shape[1] - 1)
        place, row = page_table.long().gather(1, column), row % size
        options["paged"] = size
    else:
        is_ours &= row < size
        sequence = torch.arange(len(position), device=position.device) if cache_index is None else cache_index.long()
        place = sequence[:, None].expand_as(row)
    slots = torch.where(is_ours & (place >= 0), place * size + row, -1)
    if options.get("rope") is not None:
        options["positions"] = position.clamp(min=0).int().flatten()
    ours.append(k, v, k_new.flatten(0, 1), v_new.flatten(0, 1), slots=slots.flatten(), **options)


def _refuse_others(name: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        if option not in _TAKEN and value is not None:
            raise RefusedError(f"{option} is not an option of {name}, which takes {', '.join(sorted(_TAKEN))}")
