"""Multi-head latent attention (`aiter.mla`), which reads its keys and values from pages: refused."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import RefusedError


def _refused(name: str) -> Any:
    def function(*arguments: Any, **named: Any) -> NoReturn:
        raise RefusedError(
            f"{name} is not provided yet: regard.torch.attention(q, cache, None, dv=512, page_table=...) computes "
            "latent attention over pages"
        )

    function.__name__ = function.__qualname__ = name
    return function


mla_decode_fwd = _refused("mla_decode_fwd")
mla_prefill_fwd = _refused("mla_prefill_fwd")
mla_prefill_ps_fwd = _refused("mla_prefill_ps_fwd")
