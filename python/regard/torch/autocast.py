"""Casts as torch.autocast makes them for scaled_dot_product_attention."""

from __future__ import annotations

import torch
from torch import Tensor

_CAST = (torch.float32, torch.float16, torch.bfloat16)


def cast(tensor: Tensor) -> Tensor:
    """The tensor in the type of the autocast that is on for its device; what has another kind of type stays."""
    return tensor.to(torch.get_autocast_dtype(tensor.device.type)) if tensor.dtype in _CAST else tensor
