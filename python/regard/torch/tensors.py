"""Which arguments of a call are tensors, and which of them have gradients."""

from __future__ import annotations

from typing import Any

from torch import Tensor

INPUTS = ("q", "k", "v")
DIFFERENTIABLE = frozenset((*INPUTS, "bias", "sink"))


def bare(value: Any) -> Any:
    """What the library reads: a tensor without its history; anything else as it is."""
    if type(value) is Tensor and not value.requires_grad:
        return value
    return value.detach() if isinstance(value, Tensor) else value
