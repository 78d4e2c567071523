"""The shapes of results while PyTorch traces, when sizes may be symbols, which problem text cannot contain."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arrays import NAMES


class Sizes:
    def __init__(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> None:
        self.q, self.k, self.v, self.options = q, k, v, options
        self.varlen = "offsets_q" in options
        self.axes = "shd" if self.varlen else options.get("layout", "bshd")

    def _of(self, tensor: Tensor, axis: str) -> Any:
        return tensor.shape[self.axes.index(axis)]

    def o(self) -> Tensor:
        out = self.options.get("out")
        if out is None and self.q.dtype.itemsize == 1:
            out = "bf16"
        dtype = self.q.dtype if out is None else getattr(torch, NAMES[out])
        return self.q.new_empty((*self.q.shape[:-1], self._columns_of_v()), dtype=dtype)

    def _columns_of_v(self) -> Any:
        together = 16 // self.v.dtype.itemsize if self.options.get("kv_layout") == "vectorized" else 1
        return self.v.shape[-1] // together

    def rows(self) -> tuple[Any, ...]:
        """One for each query of each head: [b, hq, sq] or [hq, tokens]."""
        rows = self._of(self.q, "h"), self._of(self.q, "s")
        return rows if self.varlen else (self._of(self.q, "b"), *rows)

    def keys(self) -> Any:
        """The length of a sequence, or of the longest packed one."""
        return self.options["sk"] if self.varlen else self._of(self.k, "s")

    def lse(self) -> Tensor:
        return self.q.new_empty(self.rows(), dtype=torch.float32)

    def row_max(self) -> Tensor:
        return self.lse()

    def dropout_mask(self) -> Tensor:
        return self.q.new_empty((*self.rows(), self.keys()), dtype=torch.uint8)
