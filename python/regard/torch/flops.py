"""FLOPs that torch.utils.flop_counter counts for a call: products with every key, masked or not, like PyTorch's own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from . import operators
from .encoding import decode
from .shapes import Sizes


def _scores(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> int:
    """The number of scores. If the offsets of packed sequences cannot be read, all count as the longest one."""
    sizes = Sizes(q, k, v, options)
    if not sizes.varlen:
        return int(math.prod(sizes.rows()) * sizes.keys())
    lengths = [torch.as_tensor(options[name]).diff() for name in ("offsets_q", "offsets_k")]
    heads, of_q, of_k = sizes.rows()[0], *lengths
    if of_q.is_meta or type(of_q) is not Tensor:
        return int(heads * len(of_q) * options["sq"] * sizes.keys())
    return int(heads * (of_q.long() * of_k.long()).sum())


@register_flop_formula(operators.attention_op.overloadpacket, get_raw=True)
def _of_forward(q: Tensor, k: Tensor, v: Tensor, *encoded: Any, **_: Any) -> int:
    return 2 * _scores(q, k, v, decode(*encoded)) * (q.shape[-1] + v.shape[-1])


@register_flop_formula(operators.backward_op.overloadpacket, get_raw=True)
def _of_backward(
    grad_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *others: Any, **_: Any
) -> int:
    """The scores again, dP and dV, dQ and dK."""
    return 2 * _scores(q, k, v, decode(*others[:4])) * (3 * q.shape[-1] + 2 * v.shape[-1])
