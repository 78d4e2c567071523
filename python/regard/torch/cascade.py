"""cascade_attention: a prefix that all sequences share is read once for all of them, not once for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arrays import dtype_word
from ..errors import RefusedError, invalid
from .attention import attention
from .merging import merge
from .tensors import is_eager, refuse_types

_OF_BOTH = ("scale", "softcap", "batch_invariant", "splits", "target", "family", "threads")
_OF_POOL = ("kv", "kv_layout", "descale", "descale_k", "descale_v")  # what the pages of k and v are
_OF_OWN = (
    *("causal", "bits", "ranges", "sink", "out", "descale_q", "k_new", "v_new", "snew", "offsets_new", "cache"),
    *("offsets_q", "offsets_k", "lengths_k", "sq", "sk", "paged", "pages", "table", "page_table", "page_list"),
    *("page_offsets", "last_page_lengths", "cache_index", "left_padding"),
)
_TAKEN = frozenset((*_OF_BOTH, *_OF_POOL, *_OF_OWN))


def cascade_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    prefix_k: Tensor | None = None,
    prefix_v: Tensor | None = None,
    prefix_table: Tensor | None = None,
    prefix_length: Tensor | None = None,
    lse: Any = False,
    **options: Any,
) -> Any:
    """Attention to a prefix that all sequences share and to each sequence's own keys after it, neither of them copied:
    all queries attend to the prefix as one sequence, and to their own keys, and both results are merged.

    q: [b, sq, hq, d], or packed [tokens, hq, d] with offsets_q. k, v: the keys and values of each sequence after the
    prefix, as `attention` takes them: dense, packed, or a KV cache in pages (page_table). The prefix is one of:
    - pages of the same pool: prefix_table, int32 [n], names those in k and v;
    - pages of another pool: prefix_table with prefix_k [pages, page, hk, d] and prefix_v [pages, page, hk, dv];
    - dense: prefix_k [s, hk, d] and prefix_v [s, hk, dv].

    prefix_length, int32 [1]: the number of rows of the prefix; all if absent. It and lengths_k, which does not count
    the prefix, are not read on the host. Both may be 0.

    Returns o, or (o, lse) with lse=True, shaped as those of `attention`. Every query sees the whole prefix: causal,
    bits and ranges apply to its own keys, and causal aligns the last query with the last of them. Other options are
    scale, softcap, sink, out, the words of KV caches except rope, batch_invariant, splits, target, family and threads;
    whatever else depends on positions across the prefix (window, bias, alibi, dropout) is refused.

    Differentiable if neither the prefix nor the sequences' own keys are a KV cache. Raises the errors of `attention`.
    """
    refuse_types(q=q, k=k, v=v)
    pages_of_k = any(options.get(name) is not None for name in ("page_table", "page_list"))
    given = {"prefix_k": prefix_k, "prefix_v": prefix_v, "prefix_table": prefix_table, "prefix_length": prefix_length}
    refuse_types(**{name: tensor for name, tensor in given.items() if tensor is not None})
    _refuse(options)
    if (prefix_k is None) != (prefix_v is None):
        raise invalid("prefix_k and prefix_v are the keys and values of one prefix: give both, or neither")
    if prefix_k is None or prefix_v is None:
        if prefix_table is None or not pages_of_k:
            raise invalid(
                "the prefix is missing: give prefix_table, where k and v are pages with page_table, or prefix_k and "
                "prefix_v"
            )
        prefix_k, prefix_v, of_pool = k, v, _of_pool(options, q, k)
    else:
        of_pool = {}
        for name in _OF_POOL:
            if options.get(name) is not None:
                raise RefusedError(
                    f"{name} describes the pages of k and v, and prefix_k is a tensor of its own: keep the prefix in "
                    "pages of k and v, and give prefix_table alone"
                )
    expected = 3 if prefix_table is None else prefix_k.dim() if prefix_k is k else 4
    if prefix_k.dim() != expected or prefix_v.dim() != expected:
        raise invalid(
            f"prefix_k has shape {list(prefix_k.shape)} and prefix_v {list(prefix_v.shape)}; they must be [s, hk, d] "
            "and [s, hk, dv], or, with prefix_table, [pages, page, hk, d] and [pages, page, hk, dv]"
        )
    if prefix_table is not None and prefix_table.dim() != 1:
        raise invalid(f"prefix_table has shape {list(prefix_table.shape)}; it must be [n], the pages of the prefix")
    if prefix_length is None and prefix_table is not None and options.get("kv_layout") == "vectorized":
        raise invalid("vectorized pages need prefix_length, the rows of the prefix")
    if prefix_length is not None and prefix_length.numel() != 1:
        raise invalid(f"prefix_length has shape {list(prefix_length.shape)}; it must be [1]")

    packed = options.get("offsets_q") is not None
    recorded = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (q, k, v, prefix_k, prefix_v, options.get("sink")) if tensor is not None
    )
    own_o, own_lse = attention(q, k, v, lse=lse if isinstance(lse, Tensor) else True, **options)
    if prefix_table is not None and prefix_table.shape[0] == 0:
        return (own_o, own_lse) if isinstance(lse, Tensor) or lse else own_o
    of_prefix = {name: options[name] for name in _OF_BOTH if options.get(name) is not None} | of_pool
    if own_o.dtype != q.dtype:
        of_prefix["out"] = dtype_word("o", own_o)
    if options.get("descale_q") is not None:
        of_prefix["descale_q"] = options["descale_q"]
    rows = _Prefix(prefix_k, prefix_v, prefix_table, prefix_length)
    attend = rows.of_packed if packed else rows.of_dense
    o, prefix_lse = attend(q, options, of_prefix, is_eager(q) and not recorded)
    if recorded:
        found = merge(torch.stack((own_o, o)), torch.stack((own_lse, prefix_lse)))
    else:
        found = merge(o[None], prefix_lse[None], out=own_o, lse=own_lse, accumulate=True)
    return found if isinstance(lse, Tensor) or lse else found[0]


class _Prefix:
    """One sequence, to which all queries attend without a mask."""

    def __init__(self, k: Tensor, v: Tensor, table: Tensor | None, length: Tensor | None) -> None:
        self.k, self.v = k, v
        self.table = None if table is None else table.reshape(1, -1)
        if table is not None and length is None:
            length = table.new_full((1,), table.numel() * k.shape[1], dtype=torch.int32)
        self.length = None if length is None else length.reshape(1)

    def of_dense(self, q: Tensor, _: Any, options: dict[str, Any], eager: bool) -> tuple[Tensor, Tensor]:
        b, sq, hq, _ = q.shape
        k, v = self.k, self.v
        if self.table is None:
            k, v = k[None], v[None]
        else:
            options["page_table"] = self.table
        if self.length is not None:
            options["lengths_k"] = self.length
        o, lse = attention(q.reshape(1, b * sq, *q.shape[2:]), k, v, lse=True, **options)
        return o.reshape(b, sq, *o.shape[2:]), lse.reshape(hq, b, sq).transpose(0, 1)

    def of_packed(
        self, q: Tensor, of_own: dict[str, Any], options: dict[str, Any], eager: bool
    ) -> tuple[Tensor, Tensor]:
        offsets = torch.as_tensor(of_own["offsets_q"], dtype=torch.int32, device=q.device)
        options |= {"offsets_q": self._from_zero(offsets[-1:]), "sq": q.shape[0]}
        if self.table is not None:
            options |= {"page_table": self.table, "lengths_k": self.length}
        else:
            rows = self.k.shape[0]
            length = offsets.new_full((1,), rows) if self.length is None else self.length.clamp(0, rows)
            options |= {"offsets_k": self._from_zero(length), "sk": rows}
        lse: Any = True
        if eager:  # rows after the last token see no prefix: the merge leaves them as they are
            lse = torch.full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float32, device=q.device)
        o, lse = attention(q, self.k, self.v, lse=lse, **options)
        return o, lse

    @staticmethod
    def _from_zero(last: Tensor) -> Tensor:
        return torch.cat((last.new_zeros(1), last)).to(torch.int32)


def _refuse(options: dict[str, Any]) -> None:
    for name, option in options.items():
        if name in _TAKEN or option is None or (name == "layout" and option == "bshd"):
            continue
        raise RefusedError(
            f"{name} is not an option of cascade_attention: call attention on all keys of each sequence for what "
            "depends on positions across the prefix"
        )


def _of_pool(options: dict[str, Any], q: Tensor, k: Tensor) -> dict[str, Any]:
    """The words that the prefix shares with the pages of k and v."""
    of_pool = {name: options[name] for name in _OF_POOL if options.get(name) is not None}
    for name in ("descale_k", "descale_v"):
        factors = of_pool.get(name)
        if isinstance(factors, Tensor) and factors.dim() == 2 and factors.shape[0] not in (1, k.shape[0]):
            raise RefusedError(
                f"{name} has shape {list(factors.shape)}, factors for each sequence, and the sequences share the "
                "prefix: give factors for the tensor, for each head [1, hk], for each page or for each token"
            )
    return of_pool
