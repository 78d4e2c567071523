"""Functions that need a KV cache, which has no kernels yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import RefusedError


def refuse_cache(name: str) -> NoReturn:
    raise RefusedError(
        f"{name} has no kernels yet: keep K and V as a cache [b, s, h, d] and call "
        "regard.torch.attention(q, k_cache, v_cache, lengths_k=...)"
    )


def refuse_pages(name: str) -> NoReturn:
    raise RefusedError(
        f"{name} names the pages of a KV cache, which have no kernels yet: gather the pages into packed K and V"
    )


def refuse_argument(name: str) -> NoReturn:
    raise RefusedError(
        f"{name} is for KV caches, which have no kernels yet: leave it out, and give K and V as they are"
    )
