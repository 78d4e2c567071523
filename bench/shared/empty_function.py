"""The cost of autograd by itself: the shapes and saved tensors of attention, without arithmetic."""

from __future__ import annotations

from typing import Any

import torch


class Empty(torch.autograd.Function):
    """q, k and v are [b, s, h, d]."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        o, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx: Any, grad_o: Any) -> Any:
        return tuple([torch.empty_like(x) for x in ctx.saved_tensors[:3]])
