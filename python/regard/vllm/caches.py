"""A layer's cache as vLLM allocates it, and its factors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid

EIGHT_BITS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def keys_and_values(kv_cache: Tensor, kv_cache_dtype: str, head_size: int) -> tuple[Tensor, Tensor]:
    """K and V, [pages, page, heads, d], of a cache [pages, heads, page, 2 d], without a copy.

    On a CPU a head's keys come before its values, so that each of the two is contiguous; on a GPU, where the rows of a
    page can have any strides, a key lies beside its value.
    """
    if kv_cache_dtype in EIGHT_BITS:
        kv_cache = kv_cache.view(EIGHT_BITS[kv_cache_dtype])  # vLLM allocates bytes
    if kv_cache.is_cpu:
        pages, heads, page, width = kv_cache.shape
        if width != 2 * head_size:
            raise invalid(
                f"the KV cache has rows of {width} numbers for heads of {head_size}: on a CPU keys and values must "
                "have the same size"
            )
        k, v = kv_cache.view(pages, heads, 2 * page, head_size).chunk(2, dim=2)
    else:
        k, v = kv_cache[..., :head_size], kv_cache[..., head_size:]
    return k.transpose(1, 2), v.transpose(1, 2)


def factors(layer: Any, kv_cache_dtype: str) -> dict[str, Tensor]:
    """What 8-bit keys and values are multiplied by: one number for all, or one for each head. They stay where they are,
    so that a captured graph sees a change."""
    if kv_cache_dtype not in EIGHT_BITS:
        return {}
    return {"descale_k": _rows(layer._k_scale), "descale_v": _rows(layer._v_scale)}


def _rows(factor: Tensor) -> Tensor:
    return factor.reshape(1) if factor.numel() == 1 else factor.reshape(1, -1)
