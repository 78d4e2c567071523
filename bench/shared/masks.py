"""Functions of benchmarks: masks and a score, in Regard's text and as FlexAttention takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Function:
    """Regard's `words`; the same in Python is `mask(b, h, q, kv, *captured)` or `score(s, b, h, q, kv, *captured)`."""

    words: str
    mask: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None
    captured: Callable[[int, int], dict[str, Any]] = lambda heads, s: {}  # by name


def documents(heads: int, s: int) -> dict[str, Any]:
    import torch

    return {"doc": torch.arange(8, dtype=torch.int32).repeat_interleave(s // 8)}


def lengths(heads: int, s: int) -> dict[str, Any]:
    import torch

    return {"pre": torch.tensor([s // 4], dtype=torch.int32)}


def slopes(heads: int, s: int) -> dict[str, Any]:
    import torch

    return {"slope": 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)}


def masks(window: int) -> dict[str, Function]:
    """`window`: the keys that a row of the function of that name sees."""
    return {
        "causal": Function("keep=kv<=q", lambda b, h, q, kv: kv <= q),
        "window": Function(
            f"keep=kv<=q&&q-kv<{window}",
            lambda b, h, q, kv: (kv <= q) & (q - kv < window),
        ),
        "documents": Function(
            "keep=doc[q]==doc[kv]&&kv<=q tensors=doc:int32[1]",
            lambda b, h, q, kv, doc: (doc[q] == doc[kv]) & (kv <= q),
            captured=documents,
        ),
        "prefix": Function(
            "keep=kv<=q||kv<pre[b] tensors=pre:int32[1]",
            lambda b, h, q, kv, pre: (kv <= q) | (kv < pre[b]),
            captured=lengths,
        ),
        "natten": Function(  # an image of 64 columns, 13 x 13 neighbours
            "keep=abs(q//64-kv//64)<7&&abs(q%64-kv%64)<7",
            lambda b, h, q, kv: ((q // 64 - kv // 64).abs() < 7) & ((q % 64 - kv % 64).abs() < 7),
        ),
    }


ALIBI = Function(
    "score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1]",
    score=lambda s, b, h, q, kv, slope: s - slope[h] * (q - kv).abs(),
    captured=slopes,
)
