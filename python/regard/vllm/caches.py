"""A layer's cache as vLLM allocates it, and its factors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid

EIGHT_BITS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def keys_and_values(kv_cache: Tensor, kv_cache_dtype: str, head_size: int, for_cpu: bool) -> tuple[Tensor, Tensor]:
    """K and V, [pages, page, heads, d], of a cache [pages, heads, page, 2 d], without a copy.

    for_cpu: there a head's keys come before its values, so that each of the two is contiguous. On a GPU, where the
    rows of a page can have any strides, a value follows its key.
    """
    if kv_cache_dtype in EIGHT_BITS:
        kv_cache = kv_cache.view(EIGHT_BITS[kv_cache_dtype])  # vLLM allocates bytes
    pages, heads, page, width = kv_cache.shape
    of_page, of_head, of_row, of_number = kv_cache.stride()
    first_v, of_values = head_size, width - head_size
    if for_cpu:
        if width != 2 * head_size:
            raise invalid(
                f"the KV cache has rows of {width} numbers for heads of {head_size}: on a CPU keys and values must "
                "have the same size"
            )
        if (of_row, of_number) != (width, 1):
            raise invalid(f"on a CPU the rows of a head's page lie together; those of this cache are {of_row} apart")
        first_v, of_row = page * head_size, head_size
    strides = (of_page, of_row, of_head, of_number)  # one view each, as every layer of every step makes them
    first = kv_cache.storage_offset()
    k = kv_cache.as_strided((pages, page, heads, head_size), strides, first)
    return k, kv_cache.as_strided((pages, page, heads, of_values), strides, first + first_v * of_number)


def factors(layer: Any, kv_cache_dtype: str) -> dict[str, Tensor]:
    """What 8-bit keys and values are multiplied by: one number for all, or one for each head. They stay where they are,
    so that a captured graph sees a change."""
    if kv_cache_dtype not in EIGHT_BITS:
        return {}
    return {"descale_k": _rows(layer._k_scale), "descale_v": _rows(layer._v_scale)}


def _rows(factor: Tensor) -> Tensor:
    return factor.reshape(1) if factor.numel() == 1 else factor.reshape(1, -1)
