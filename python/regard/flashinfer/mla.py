"""Multi-head latent attention: refused."""

from __future__ import annotations

from typing import Any

from ..errors import RefusedError

__all__ = ["BatchMLAPagedAttentionWrapper", "append_paged_mla_kv_cache"]


def _refusal(name: str) -> RefusedError:
    return RefusedError(
        f"{name} is not provided yet: regard.torch.attention(q, cache, None, dv=512, page_table=...) computes latent "
        "attention over pages, and regard.torch.append writes its rows"
    )


class BatchMLAPagedAttentionWrapper:
    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise _refusal("BatchMLAPagedAttentionWrapper")


def append_paged_mla_kv_cache(*arguments: Any, **named: Any) -> None:
    raise _refusal("append_paged_mla_kv_cache")
