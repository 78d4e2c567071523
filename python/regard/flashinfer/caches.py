"""Caches as FlashInfer's callers hold them: a tuple (K, V), or one tensor with both in its second dimension."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..errors import invalid, wrong_type
from ..torch.tensors import refuse_without_strides
from ..words import quote

_SHAPES = (
    "it must be (k_cache, v_cache), each [pages, page, heads, d] (NHD) or [pages, heads, page, d] (HND), or one "
    "tensor with K and V in dimension 1, [pages, 2, page, heads, d]; where pages have one token, the page dimension "
    "may be left out"
)


def unpacked(paged_kv_cache: Any, hnd: bool) -> tuple[Tensor, Tensor]:
    """K and V, [pages, page, heads, d], without a copy."""
    if isinstance(paged_kv_cache, tuple) and len(paged_kv_cache) == 2:
        k, v = paged_kv_cache
        refuse_without_strides(k_cache=k, v_cache=v)
    elif isinstance(paged_kv_cache, Tensor):
        refuse_without_strides(paged_kv_cache=paged_kv_cache)
        if paged_kv_cache.dim() not in (4, 5) or paged_kv_cache.shape[1] != 2:
            raise invalid(f"paged_kv_cache has shape {list(paged_kv_cache.shape)}; {_SHAPES}")
        k, v = paged_kv_cache.unbind(1)
    else:
        raise wrong_type(f"paged_kv_cache is {quote(paged_kv_cache)}; {_SHAPES}")
    if k.dim() == 3 and v.dim() == 3:
        return k[:, None], v[:, None]
    if k.dim() != 4 or v.dim() != 4:
        raise invalid(f"k_cache has shape {list(k.shape)} and v_cache {list(v.shape)}; {_SHAPES}")
    return (k.transpose(1, 2), v.transpose(1, 2)) if hnd else (k, v)
