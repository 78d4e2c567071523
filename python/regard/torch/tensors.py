"""Which arguments of a call are tensors, and which of them have gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # of what has gradients
INPUTS = ("q", "k", "v")
_PLAIN = (Tensor, torch.nn.Parameter)
DIFFERENTIABLE = frozenset((*INPUTS, "bias", "sink"))


def tensor_names(options: dict[str, Any]) -> tuple[str, ...]:
    """Of those options that are tensors."""
    return tuple([name for name, option in options.items() if isinstance(option, Tensor)])


def bare(value: Any) -> Any:
    """What the library reads: a tensor without its history; anything else as it is."""
    if type(value) is Tensor and not value.requires_grad:
        return value
    return value.detach() if isinstance(value, Tensor) else value


def plain(tensor: Tensor) -> Tensor:
    """A tensor of the class itself, as calls are remembered of; a parameter, say, is a subclass."""
    return tensor if type(tensor) is Tensor else tensor.detach()


def written(*memory: Any) -> None:
    """Tells autograd which tensors were written to, so that backward refuses those that it saved before."""
    for tensor in memory:
        if isinstance(tensor, Tensor) and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def zero(*memory: Tensor | None) -> None:
    """Memory that is given for results, where rows that are not computed would stay as they are."""
    for tensor in memory:
        if tensor is not None:
            tensor.zero_()


def is_eager(q: Tensor) -> bool:
    """Whether nothing has to see the call as an operator: no compiler, tracer, mode, transform or subclass."""
    return (
        not torch.compiler.is_compiling()
        and type(q) in _PLAIN
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and not q.is_meta
    )
