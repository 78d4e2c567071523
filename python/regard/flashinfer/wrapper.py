"""What FlashInfer's wrappers have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.splits import splits_of_unknown_lengths
from ..torch.tensors import refuse_without_strides
from .attend import Planned
from .lists import Buffers, first
from .words import heads_first, refuse_other_backends


class Wrapper:
    """Of the caller's workspace only the device matters: plans here have memory of their own."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str, use_cuda_graph: bool, backend: str) -> None:
        refuse_without_strides(float_workspace_buffer=float_workspace_buffer)
        refuse_other_backends(backend)
        self._hnd = heads_first(kv_layout)
        self._use_cuda_graph = is_on("use_cuda_graph", use_cuda_graph)
        self.device: torch.device = float_workspace_buffer.device
        self._planned: Planned | None = None
        self._buffers: Buffers | None = None
        self._most = 0  # pages that a sequence may have by the buffers or the caller's bound
        self._pages: int | None = None  # pages of the cache that bound the plan

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

    def _bounded(self, planned: Planned, pages: int, page_size: int) -> Planned:
        """The plan of a graph, with a bound of sequences that later plans do not change: the pages of the cache, or
        those that the buffer has room for, if these are fewer."""
        if self._pages == pages:
            return planned
        options = planned.options
        if self._buffers is not None and "bits" not in options:
            most = max(min(self._most, pages), 1)
            indices, batch = self._buffers.indices, self._buffers.last_page_len.shape[0]
            options = {**options, "page_list": first(indices, batch * most), "sk": most * page_size}
        self._pages, self._planned = pages, planned._replace(options=options)
        return self._planned

    def _parts(self, sequences: int, queries: int, hq: int, hk: int) -> dict[str, int]:
        """Into how many parts keys are split where a graph is replayed with unknown lengths."""
        return splits_of_unknown_lengths(self.device, sequences, queries, hq, hk) if self._use_cuda_graph else {}

    def _has_plan(self) -> Planned:
        if self._planned is None:
            raise invalid(f"{type(self).__name__} has no plan yet: call plan before run")
        return self._planned
