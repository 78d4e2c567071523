"""Makes eager calls, which do not go through a PyTorch operator, visible to PyTorch's profilers.

The profiler, and the NVTX ranges of torch.autograd.profiler.emit_nvtx, show the operators' names and shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

FORWARD, BACKWARD = "regard::attention", "regard::attention_backward"

is_profiled = torch.autograd._profiler_enabled  # type: ignore[attr-defined]


def shown(function: Callable[..., T], name: str, *tensors: Tensor) -> Callable[..., T]:
    """The function, shown as the operator of this name with these inputs."""

    def call(*arguments: Any) -> T:
        with torch._C._profiler._RecordFunctionFast(name, tensors):
            return function(*arguments)

    return call
