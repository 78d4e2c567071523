"""Operations of ATen in the language of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import RefusedError
from .operations import (
    Operand,
    add,
    bitwise,
    clamp,
    compared,
    divide,
    fmod,
    larger,
    less,
    logical,
    multiply,
    node_of,
    numeric,
    power,
    real,
    rounded,
    smaller,
    subtract,
    truncated,
    where,
)
from .tree import Node, converted, operation

# The types in which PyTorch computes whole numbers that wrap where int32 does not.
NARROW = (torch.uint8, torch.int8, torch.int16)
_KEEP_NARROW = frozenset(
    ["bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "where", "remainder", "floor_divide"]
)


def type_of(dtype: torch.dtype) -> str:
    """The type of the language."""
    return "bool" if dtype == torch.bool else "fp32" if dtype.is_floating_point else "int32"


def _to_copy(x: Operand, dtype: torch.dtype | None = None, **_: Any) -> Node:
    if dtype is None:
        return node_of(x)
    if dtype in (torch.float16, torch.bfloat16):
        raise RefusedError(f"to round to {dtype}; functions compute in float32: take it out")
    if dtype in NARROW and node_of(x).type != "bool":
        raise RefusedError(f"to cut a number to {dtype}; functions compute in int32: write & 255, for example")
    return converted(node_of(x), type_of(dtype))


OPERATIONS: dict[str, Callable[..., Node]] = {
    "add": lambda x, y, alpha=1: add(x, multiply(y, alpha)),
    "sub": lambda x, y, alpha=1: subtract(x, multiply(y, alpha)),
    "rsub": lambda x, y, alpha=1: subtract(y, multiply(x, alpha)),
    "mul": multiply,
    "div": divide,
    "true_divide": divide,
    "floor_divide": numeric("//"),
    "remainder": numeric("%"),
    "fmod": fmod,
    "pow": power,
    "reciprocal": lambda x: real("/")(1.0, x),
    "neg": numeric("-"),
    "abs": numeric("abs"),
    "sign": numeric("sign"),
    "sgn": numeric("sign"),
    "floor": numeric("floor"),
    "ceil": numeric("ceil"),
    "round": rounded,
    "trunc": lambda x: truncated(node_of(x)),
    "relu": lambda x: numeric("max")(x, 0),
    "silu": lambda x: multiply(x, real("sigmoid")(x)),
    "tan": lambda x: real("/")(real("sin")(x), real("cos")(x)),
    "minimum": smaller,
    "maximum": larger,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": lambda x, most: clamp(x, None, most),
    "lt": less,
    "le": compared("<="),
    "gt": compared(">"),
    "ge": compared(">="),
    "eq": compared("=="),
    "ne": compared("!="),
    "isnan": lambda x: compared("!=")(x, x),
    "isinf": lambda x: compared("==")(numeric("abs")(x), float("inf")),
    "where": where,
    "masked_fill": lambda x, c, y: where(c, y, x),
    "bitwise_and": bitwise("&", "&&"),
    "bitwise_or": bitwise("|", "||"),
    "bitwise_xor": bitwise("^", "!="),
    "bitwise_not": lambda x: operation("!" if node_of(x).type == "bool" else "~", node_of(x), type=node_of(x).type),
    "logical_and": logical("&&"),
    "logical_or": logical("||"),
    "logical_xor": logical("!="),
    "logical_not": logical("!"),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__", "__ilshift__"), numeric("<<")),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__", "__irshift__"), numeric(">>")),
    **{name: real(name) for name in ["exp", "exp2", "log", "log2", "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "cos"]},
    "_to_copy": _to_copy,
    "clone": lambda x, **_: node_of(x),
}

# Results that do not depend on the operand's value.
MAKE_CONSTANTS = frozenset(
    ["zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"]
)

_HOLDS = "do it outside, and close over a tensor that holds the results"
_WRITE = "write its terms out, or " + _HOLDS
REMEDIES = {
    **dict.fromkeys(
        ["sum", "mean", "prod", "any", "all", "amax", "amin", "max", "min", "argmax", "argmin", "cumsum"], _WRITE
    ),
    **dict.fromkeys(["dot", "mm", "mv", "bmm", "matmul"], "close over the products, indexed by [b, h, q_idx, ...]"),
    **dict.fromkeys(["isin", "searchsorted", "bucketize", "nonzero"], _WRITE),
    **dict.fromkeys(["unbind", "split", "chunk"], "index the tensor instead"),
    "log1p": "write torch.log(1 + x)",
    "expm1": "write torch.exp(x) - 1",
    "log10": "write torch.log2(x) * 0.30103",
    "arange": _WRITE,
}
DEFAULT_REMEDY = _HOLDS


def keeps_its_bits(name: str, dtype: torch.dtype) -> bool:
    """Whether an operation has the same result in int32 as in PyTorch's own type."""
    return dtype not in NARROW or name in _KEEP_NARROW or name == "_to_copy"
