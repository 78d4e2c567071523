"""Calls whose keys and values lie in a KV cache: the common path of flash_attn 2 and 3."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import invalid
from ..torch import attention
from ..torch.autocast import is_autocast
from ..torch.autograd import unrecorded
from ..torch.sdpa import with_contiguous_rows
from ..torch.tensors import is_eager, refuse_others, refuse_without_strides
from ..words import quote
from . import flavour
from .attend import lse_as_flash_attn
from .chunks import chunk_ranges, within_chunk
from .words import sequences_between, whole, with_rows_contiguous


class Names(NamedTuple):
    """The arguments as the caller's library names them."""

    k: str = "k"
    v: str = "v"
    lengths: str = "cache_seqlens"
    batch_idx: str = "cache_batch_idx"
    table: str = "block_table"
    offsets: str = "cu_seqlens_k_new"
    positions: str = "rotary_seqlens"


class Cache(NamedTuple):
    """A cache [b, s, h, d], or pages [pages, page, h, d] with a table."""

    k: Tensor
    v: Tensor
    lengths: int | Tensor | None = None  # before new tokens; None: every sequence fills its rows
    batch_idx: Tensor | None = None  # the sequence of the cache for each sequence of q
    left_padding: Tensor | None = None
    table: Tensor | None = None
    names: Names = Names()
    waits: bool = True  # for lengths on a GPU, to compare them with the table, as flash_attn 2 does

    def is_given(self) -> bool:
        """Whether it has anything that plain keys and values do not have."""
        return self.table is not None or self.batch_idx is not None or self.left_padding is not None

    @property
    def rows(self) -> Any:
        """The most rows that a sequence can have."""
        return self.k.shape[1] if self.table is None else self.table.shape[-1] * self.k.shape[1]


class New(NamedTuple):
    """New tokens [b, s, h, d], or packed ones with offsets, and the tables that rotate them and the queries."""

    k: Tensor | None = None
    v: Tensor | None = None
    cos: Tensor | None = None
    sin: Tensor | None = None
    interleaved: bool = True
    offsets: Tensor | None = None
    positions: Tensor | None = None  # where the rotation of each sequence, if any, begins; None: at its length

    def is_given(self) -> bool:
        tokens = self.k is not None or self.v is not None or self.offsets is not None
        return tokens or self.cos is not None or self.sin is not None


def attend_cached(
    q: Tensor, cache: Cache, new: New, words: dict[str, Any], wants_lse: bool, memory: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """out, written to `memory` if that is given, and softmax_lse as flash_attn 2 returns it. Autograd records nothing.

    words: those of the scores, and of packed queries if they are packed.
    """
    refuse_wrong_tensors(q, cache, new)
    rows = cache.rows
    out, lse = attend(q, cache, new, without_idle_sides(words, rows, rows), wants_lse, memory)
    return out, None if lse is None else lse_as_flash_attn(lse, rows, flavour.chosen() == "cuda")


@unrecorded
def attend(
    q: Tensor,
    cache: Cache,
    new: New,
    words: dict[str, Any],
    wants_lse: bool,
    memory: Tensor | None = None,
    chunk: int = 0,
    qv: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """chunk: how many keys a chunk of FlashAttention-3's chunked attention has. qv: latent attention, where K has the
    columns of v, then those of k; neither is copied."""
    if qv is not None:
        q, new = _behind_values(q, qv, new)
    q = with_contiguous_rows(q)
    options = {**words, **_cache_options(q, cache, words)}
    if new.is_given():
        options |= _new_options(cache, new)
    if cache.table is not None and is_eager(q):
        _refuse_beyond_table(cache, options)
    if chunk:
        options = within_chunk(chunk, options)
        options["ranges"] = chunk_ranges(q, _keys(cache, options), chunk, options)
    if memory is not None:
        options["out"] = memory
    k: Tensor = cache.k
    v: Tensor | None = cache.v
    if qv is not None:
        k, v, options["k_rope"] = cache.v, None, cache.k
        options.pop("v_new", None)
    if not is_autocast(q):
        return _attention(q, k, v, options, wants_lse)
    with torch.autocast(q.device.type, enabled=False):  # a cache is not cast, dense or not
        return _attention(q, k, v, options, wants_lse)


def _attention(
    q: Tensor, k: Tensor, v: Tensor | None, options: dict[str, Any], wants_lse: bool
) -> tuple[Tensor, Tensor | None]:
    if not wants_lse:
        return attention(q, k, v, **options), None
    out, lse = attention(q, k, v, lse=True, **options)
    return out, lse


def _behind_values(q: Tensor, qv: Tensor, new: New) -> tuple[Tensor, New]:
    """Queries and new keys with the columns that belong to v first."""
    refuse_without_strides(qv=qv)
    if qv.shape[:-1] != q.shape[:-1]:
        raise invalid(f"qv has shape {list(qv.shape)} and q {list(q.shape)}; all but the last dimension must be equal")
    if new.k is None or new.v is None:
        return torch.cat((qv, q), dim=-1), new
    if new.k.shape[:-1] != new.v.shape[:-1]:
        raise invalid(
            f"k has shape {list(new.k.shape)} and v {list(new.v.shape)}; all but the last dimension must be equal"
        )
    return torch.cat((qv, q), dim=-1), new._replace(k=torch.cat((new.v, new.k), dim=-1))


def refuse_wrong_tensors(q: Tensor, cache: Cache, new: New) -> None:
    """Refuses tensors whose shapes cannot be read: arrays of other libraries, and wrong numbers of dimensions."""
    names = cache.names
    refuse_without_strides(q=q, k_cache=cache.k, v_cache=cache.v)
    if cache.is_given():
        places = {names.table: cache.table, names.batch_idx: cache.batch_idx}
        refuse_others(**places, cache_leftpad=cache.left_padding)
    if new.is_given():
        tokens = {names.k: new.k, names.v: new.v, names.offsets: new.offsets, names.positions: new.positions}
        refuse_others(**tokens, rotary_cos=new.cos, rotary_sin=new.sin)
    for name, rows in (("q", q), (names.k, new.k)):
        if rows is not None and rows.dim() not in (3, 4):
            shape = list(rows.shape)
            raise invalid(f"{name} has shape {shape}; it must be [b, s, heads, d] or, packed, [tokens, heads, d]")
    paged = cache.table is not None
    if cache.k.dim() != 4:
        axes = "pages, page" if paged else "sequences, s"
        raise invalid(f"k_cache has shape {list(cache.k.shape)}; it must be [{axes}, heads, d]")
    if cache.table is not None and cache.table.dim() != 2:
        raise invalid(f"{cache.names.table} has shape {list(cache.table.shape)}; it must be [b, pages of a sequence]")


def _cache_options(q: Tensor, cache: Cache, words: dict[str, Any]) -> dict[str, Any]:
    names, packed = cache.names, "offsets_q" in words
    batch = sequences_between("cu_seqlens_q", words["offsets_q"]) if packed else q.shape[0]
    options: dict[str, Any] = {}
    lengths = _lengths(cache, batch)
    if lengths is not None:
        options["lengths_k"] = lengths
    if cache.left_padding is not None:
        options["left_padding"] = with_contiguous_rows(cache.left_padding)
    if cache.table is not None:
        if cache.batch_idx is not None:
            raise invalid(
                f"{names.batch_idx} does not go with {names.table}, which says where sequences lie: leave it out, and "
                f"reorder the rows of {names.table}"
            )
        options["page_table"] = cache.table.contiguous()
        options["sk"] = cache.rows
    elif packed or cache.batch_idx is not None or cache.k.shape[0] != batch:
        options["cache"] = cache.k.shape[0]
    elif lengths is not None and lengths.is_cpu:
        options["cache"] = batch  # so that lengths below 0 are those of padded rows there, too
    if cache.batch_idx is not None:
        options["cache_index"] = with_contiguous_rows(cache.batch_idx)
    return options


def _lengths(cache: Cache, batch: int) -> Tensor | None:
    if isinstance(cache.lengths, Tensor):
        return with_contiguous_rows(cache.lengths)
    if cache.lengths is None:
        if cache.table is None:
            return None
        return torch.full((batch,), cache.rows, dtype=torch.int32, device=cache.k.device)
    if isinstance(cache.lengths, bool) or not isinstance(cache.lengths, int):
        raise invalid(
            f"{cache.names.lengths} is {quote(cache.lengths)}; it must be one length for all sequences, or an int32 "
            "tensor [b]"
        )
    return torch.full((batch,), cache.lengths, dtype=torch.int32, device=cache.k.device)


def _new_options(cache: Cache, new: New) -> dict[str, Any]:
    names = cache.names
    if (new.k is None) != (new.v is None):
        raise invalid(f"{names.k} and {names.v} are the new tokens of the cache: give both, or neither")
    if (new.cos is None) != (new.sin is None):
        raise invalid("rotary_cos and rotary_sin rotate new tokens together: give both, or neither")
    if new.k is None or new.v is None:
        if new.cos is not None:
            raise invalid(
                f"rotary_cos and rotary_sin rotate new tokens and queries, and {names.k} is missing: give {names.k} "
                f"and {names.v}"
            )
        if new.offsets is not None:
            raise invalid(f"{names.offsets} is for new tokens, which are missing: give {names.k} and {names.v}")
        return {}
    if cache.lengths is None:
        raise invalid(
            f"{names.k} and {names.v} are written after the tokens of the cache: give {names.lengths}, how many there "
            "are"
        )
    k, v = with_rows_contiguous(new.k, new.v)
    offsets = None if new.offsets is None else with_contiguous_rows(new.offsets)
    options: dict[str, Any] = {"k_new": k, "v_new": v, "offsets_new": offsets}
    if new.offsets is not None:
        sequences_between(names.offsets, new.offsets)
        options["snew"] = min(k.shape[0], cache.rows)  # a bound, which the host knows
    if new.cos is not None and new.sin is not None:
        options |= _rotary_options(cache, new, new.cos, new.sin)
    return {name: option for name, option in options.items() if option is not None}


def _rotary_options(cache: Cache, new: New, cos: Tensor, sin: Tensor) -> dict[str, Any]:
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        if table.dim() != 2 or table.shape[0] < cache.rows:
            raise invalid(
                f"{name} has shape {list(table.shape)}; it must have a row for each of the {cache.rows} rows of a "
                "sequence in the cache, [rows, rotary dimensions / 2]"
            )
    cos, sin = with_rows_contiguous(cos, sin)
    return {
        "rope": "interleaved" if new.interleaved else "half",
        "rotary": 2 * cos.shape[1],
        "rope_cos": cos,
        "rope_sin": sin,
        "positions": None if new.positions is None else with_contiguous_rows(new.positions),
    }


def _refuse_beyond_table(cache: Cache, options: dict[str, Any]) -> None:
    """Raises flash_attn's error for lengths beyond the table, where the host knows them. Kernels stop at its end."""
    offsets, k_new = options.get("offsets_new"), options.get("k_new")
    added = 0 if k_new is None or offsets is not None else k_new.shape[1]
    lengths = cache.lengths
    if isinstance(lengths, Tensor):
        if lengths.is_cuda and (not cache.waits or torch.cuda.is_current_stream_capturing()):
            return
        if lengths.dim() != 1 or lengths.dtype not in (torch.int32, torch.int64) or lengths.is_meta:
            return  # which the call refuses
        if offsets is not None:
            if offsets.device != lengths.device or offsets.shape[0] != lengths.shape[0] + 1 or offsets.is_complex():
                return
            lengths = lengths + offsets.diff()
        longest = max(lengths.tolist(), default=0) + added
    elif lengths is not None and offsets is None:
        longest = lengths + added
    else:
        return
    rows = options["sk"]
    if longest > rows:
        raise RuntimeError(
            f"{cache.names.table} has room for {rows} rows of a sequence, and {cache.names.lengths} with the new "
            f"tokens reaches {longest}: give a table with more pages"
        )


def _keys(cache: Cache, options: dict[str, Any]) -> int | Tensor:
    """How many keys each sequence has once the new tokens are written, without its left padding."""
    keys: int | Tensor = options.get("lengths_k", cache.rows)
    if "k_new" in options:
        offsets = options.get("offsets_new")
        keys = keys + (options["k_new"].shape[1] if offsets is None else offsets.diff())
    return keys if cache.left_padding is None else keys - cache.left_padding


def without_idle_sides(words: dict[str, Any], most_left: int, most_right: int) -> dict[str, Any]:
    """Makes each side of a window that can hide no key unbounded, as flash_attn does. This decides how queries are
    rotated: with a mask by their own positions, without one all of them by the length of the cache."""
    if "window" not in words:
        return words
    left, right = words["window"]
    bounded = (left if left < most_left else -1, right if right < most_right and "causal" not in words else -1)
    others = {name: word for name, word in words.items() if name != "window"}
    return others if bounded == (-1, -1) else {**others, "window": bounded}


def paged_words(
    k: Tensor,
    table: Tensor,
    name: str,
    sequences: tuple[Tensor, Tensor | None, int, int],
    used: Tensor | None = None,
    left_padding: Tensor | None = None,
) -> dict[str, Any]:
    """Packed queries on pages [pages, page, h, d]. sequences: cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k.
    used: the lengths of the keys, which are otherwise those of cu_seqlens_k."""
    offsets_q, offsets_k, max_q, max_k = sequences
    refuse_without_strides(k=k, **{name: table})
    if k.dim() != 4 or table.dim() != 2:
        raise invalid(
            f"{name} has shape {list(table.shape)} and k {list(k.shape)}; with {name} [b, pages of a sequence] k and v "
            "are [pages, page, heads, d]"
        )
    if used is None:
        if offsets_k is None:
            raise invalid(f"{name} needs the lengths of the keys as well: give cu_seqlens_k")
        sequences_between("cu_seqlens_k", offsets_k)
        used = offsets_k.diff()
    page = k.shape[1]
    sk = min(whole("max_seqlen_k", max_k), table.shape[1] * page)
    words = {
        "offsets_q": offsets_q,
        "sq": whole("max_seqlen_q", max_q),
        "sk": sk,
        "lengths_k": used,
        "page_table": table[:, : -(-sk // max(page, 1))],
        "left_padding": left_padding,
    }
    return {word: value for word, value in words.items() if value is not None}
