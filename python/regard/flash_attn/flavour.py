"""Which of flash_attn's two libraries a program was written for. They differ in results that are meant for tests and
in the LSE of rows that see no key; outputs and gradients are the same."""

from __future__ import annotations

from typing import Any

FLAVOURS = ("cuda", "ck")

_chosen = "cuda"


def chosen() -> str:
    return _chosen


def choose(flavour: Any) -> None:
    global _chosen
    if flavour not in FLAVOURS:
        raise ValueError(f"flavour is {flavour!r}; it must be 'cuda' (flash_attn on NVIDIA GPUs) or 'ck' (on AMD GPUs)")
    _chosen = flavour
