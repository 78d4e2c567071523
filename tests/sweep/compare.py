"""One model under one condition: eager attention against Regard's, outputs and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface

import regard.torch.transformers
from regard.torch.transformers.attention import attention_forward

TOLERANCE, TOLERANCE_OF_GRADIENTS = 1e-4, 1e-3
calls: Counter[str] = Counter()  # of attention, and of the names of its arguments other than tensors


def counted(*arguments: Any, **named: Any) -> Any:
    calls["attention"] += 1
    calls.update(name for name, value in named.items() if value is not None)
    return attention_forward(*arguments, **named)


regard.torch.transformers.register()
AttentionInterface.register("regard", counted)


def result_of(
    model: torch.nn.Module, name: str, call: Callable[..., torch.Tensor], inputs: dict[str, Any]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The output, and the gradients of a sum of it with random weights."""
    model.set_attn_implementation(name)
    model.zero_grad()
    torch.manual_seed(1)
    found = call(model, inputs)
    if not found.numel():
        raise LookupError("its output is empty")
    if found.requires_grad:
        weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
        (found * weights).sum().backward()
    return found.detach(), {
        name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None and p.numel()
    }


def distance(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> float:
    """The largest error, as a multiple of the tolerance."""
    (found, gradients), (expected, others) = ours, theirs
    if found.shape != expected.shape or gradients.keys() != others.keys():
        return float("inf")
    error = (found - expected).abs().max().item() / (TOLERANCE * expected.abs().max().item() + 1e-9)
    largest = max((x.abs().max().item() for x in others.values()), default=0.0)
    for name, gradient in gradients.items():
        bound = TOLERANCE_OF_GRADIENTS * others[name].abs().max().item() + 1e-5 * largest + 1e-9
        error = max(error, (gradient - others[name]).abs().max().item() / bound)
    return error if error == error else float("inf")
