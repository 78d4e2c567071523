"""Casts as torch.autocast makes them for scaled_dot_product_attention."""

from __future__ import annotations

import torch
from torch import Tensor

from .tensors import FLOATS, refuse_freed


def is_autocast(q: Tensor) -> bool:
    """Whether it is on for the device of q. Finding that device costs more than asking whether it is on for any."""
    if not torch.compiler.is_compiling() and not torch._C._is_any_autocast_enabled():
        return False
    return not q.is_meta and torch.is_autocast_enabled(q.device.type)


def cast(tensor: Tensor) -> Tensor:
    """The tensor in the type of its device's active autocast; other kinds of types are not cast."""
    dtype = type_cast_to(tensor)
    if tensor.dtype == dtype:
        return tensor
    refuse_freed(tensor=tensor)
    return tensor.to(dtype)


def type_cast_to(tensor: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype(tensor.device.type) if tensor.dtype in FLOATS else tensor.dtype
