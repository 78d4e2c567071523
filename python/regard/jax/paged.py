"""paged_attention with the signature of Pallas's kernel for GPUs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ..errors import invalid
from .attend import attention
from .values import as_jax, int32_array


def paged_attention(
    q: Any,
    k_pages: Any,
    v_pages: Any,
    block_tables: Any,
    lengths: Any,
    k_scales_pages: Any = None,
    v_scales_pages: Any = None,
    *,
    block_h: int = 16,
    pages_per_compute_block: int = 8,
    k_splits: int = 16,
    num_warps: int = 8,
    num_stages: int = 2,
    interpret: bool = False,
    debug: bool = False,
    mask_value: float | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """`jax.experimental.pallas.ops.gpu.paged_attention.paged_attention`, computed by Regard: one query for each
    sequence, whose scores are not scaled.

    q: [b, hq, d]; k_pages, v_pages: [hk, pages, page, d]; block_tables: int32 [b, n]; lengths: int32 [b], or None for
    sequences that fill their pages. k_scales_pages, v_scales_pages: float32 [hk, pages, page], for an 8-bit cache.

    block_h, pages_per_compute_block, k_splits, num_warps, num_stages, interpret and debug say how Pallas runs its
    kernel, and mask_value is what it takes for -inf: here the plan decides, and keys past a length have no weight.
    attn_logits_soft_cap: scores become cap tanh(score / cap).

    Returns o, [b, hq, d], in q's type.

    Raises InvalidError (a ValueError) for other shapes and types, and where one of the two arrays of scales is missing;
    RefusedError (a NotImplementedError) and the errors of running programs as `attention`.
    """
    q, k, v = as_jax("q", q), as_jax("k_pages", k_pages), as_jax("v_pages", v_pages)
    table = int32_array("block_tables", block_tables)
    ranks_fit = (q.ndim, k.ndim, v.ndim, table.ndim) == (3, 4, 4, 2)
    if not ranks_fit or k.shape[:3] != v.shape[:3] or len(table) != len(q) or q.shape[1] % max(len(k), 1):
        raise invalid(
            f"q has shape {list(q.shape)}, k_pages {list(k.shape)}, v_pages {list(v.shape)} and block_tables "
            f"{list(table.shape)}; they must be [b, hq, d], [hk, pages, page, d], [hk, pages, page, d] and [b, n], "
            "where hq is a multiple of hk"
        )
    if (k_scales_pages is None) != (v_scales_pages is None):
        raise invalid("k_scales_pages and v_scales_pages are for the same cache: give both, or neither")
    (b, hq, d), (hk, pages, page, _), blocks = q.shape, k.shape, table.shape[1]
    # Heads are outermost, so that each has pages of its own: a cache of one head and hk times the sequences.
    options: dict[str, Any] = {"page_table": _of_heads(table, hk, pages)}
    each = jnp.full(b, blocks * page, jnp.int32) if lengths is None else int32_array("lengths", lengths)
    if each.shape != (b,):
        raise invalid(f"lengths has shape {list(each.shape)}; it must be [b], here [{b}]")
    options["lengths_k"] = jnp.repeat(each, hk)
    if attn_logits_soft_cap is not None:
        options["softcap"] = attn_logits_soft_cap
    for name, scales in (("descale_k", k_scales_pages), ("descale_v", v_scales_pages)):
        if scales is not None:
            factors = as_jax(name, scales)
            if factors.shape != k.shape[:3]:
                shapes = f"{list(factors.shape)}; it must be that of the cache without d, {list(k.shape[:3])}"
                raise invalid(f"{name[-1]}_scales_pages has shape {shapes}")
            options["descale"] = "token"
            options[name] = factors.astype(jnp.float32).reshape(hk * pages, page, 1)
    of_one_head = [x.reshape(hk * pages, page, 1, x.shape[3]) for x in (k, v)]
    o = attention(q.reshape(b * hk, 1, hq // hk, d), *of_one_head, scale=1.0, sk=blocks * page, **options)
    return o.reshape(b, hq, v.shape[3])


def _of_heads(table: Any, heads: int, pages: int) -> Any:
    """The pages of each head of each sequence; negative entries stay negative."""
    first = pages * jnp.arange(heads, dtype=jnp.int32)[:, None]
    numbers = jnp.where(table[:, None] < 0, -1, table[:, None] + first)
    return numbers.reshape(-1, table.shape[1])
