"""What FlashInfer's wrappers have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.tensors import refuse_without_strides
from .attend import Planned
from .words import heads_first, refuse_other_backends


class Wrapper:
    """The caller's workspace only says the device: plans here have memory of their own."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str, use_cuda_graph: bool, backend: str) -> None:
        refuse_without_strides(float_workspace_buffer=float_workspace_buffer)
        refuse_other_backends(backend)
        self._hnd = heads_first(kv_layout)
        self._use_cuda_graph = is_on("use_cuda_graph", use_cuda_graph)
        self.device: torch.device = float_workspace_buffer.device
        self._planned: Planned | None = None

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return self._use_cuda_graph

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor, int_workspace_buffer: Tensor) -> None:
        """Takes other memory of the same device, which is not used either."""
        refuse_without_strides(float_workspace_buffer=float_workspace_buffer, int_workspace_buffer=int_workspace_buffer)
        for name, buffer in (("float", float_workspace_buffer), ("int", int_workspace_buffer)):
            if buffer.device != self.device:
                raise invalid(f"{name}_workspace_buffer is on {buffer.device}; it must be on {self.device}")

    def end_forward(self) -> None:
        """Does nothing, as in FlashInfer."""

    def _has_plan(self) -> Planned:
        if self._planned is None:
            raise invalid(f"{type(self).__name__} has no plan yet: call plan before run")
        return self._planned
