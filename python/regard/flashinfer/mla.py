"""Multi-head latent attention: refused."""

from __future__ import annotations

from typing import Any

from ..errors import RefusedError

__all__ = ["BatchMLAPagedAttentionWrapper", "append_paged_mla_kv_cache"]


def _refusal(name: str) -> RefusedError:
    return RefusedError(
        f"{name} needs kernels for latent attention over pages, and there are none yet: expand keys and values to "
        "heads, and use BatchPrefillWithPagedKVCacheWrapper"
    )


class BatchMLAPagedAttentionWrapper:
    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise _refusal("BatchMLAPagedAttentionWrapper")


def append_paged_mla_kv_cache(*arguments: Any, **named: Any) -> None:
    raise _refusal("append_paged_mla_kv_cache")
