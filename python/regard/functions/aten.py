"""Operations of ATen in the language of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import RefusedError
from .tree import Node, condition, converted, literal, operation

Operand = Any  # a Node, or a number of Python

# The types in which PyTorch computes whole numbers that wrap where int32 does not.
NARROW = (torch.uint8, torch.int8, torch.int16)
_KEEP_NARROW = frozenset(
    ["bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "where", "remainder", "floor_divide"]
)


def type_of(dtype: torch.dtype) -> str:
    """The type of the language."""
    return "bool" if dtype == torch.bool else "fp32" if dtype.is_floating_point else "int32"


def _node(value: Operand) -> Node:
    return value if isinstance(value, Node) else literal(value)


def _nodes(*values: Operand) -> list[Node]:
    return [_node(value) for value in values]


def _common(*nodes: Node) -> str:
    return max((node.type for node in nodes), key=("bool", "int32", "fp32").index)


def _numeric(name: str) -> Callable[..., Node]:
    """An operation whose result has the type of its operands."""

    def make(*values: Operand) -> Node:
        nodes = _nodes(*values)
        return operation(name, *nodes, type=_common(*nodes))

    return make


def _real(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *_nodes(*values), type="fp32")


def _compared(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *_nodes(*values), type="bool")


def _bitwise(name: str, of_conditions: str) -> Callable[..., Node]:
    """An operation that has another sign between conditions."""

    def make(*values: Operand) -> Node:
        nodes = _nodes(*values)
        kind = _common(*nodes)
        return operation(of_conditions if kind == "bool" else name, *nodes, type=kind)

    return make


def _logical(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *[condition(_node(value)) for value in values], type="bool")


_add = _bitwise("+", "||")
_subtract = _numeric("-")
_product = _bitwise("*", "&&")
_less = _compared("<")
_smaller = _bitwise("min", "&&")
_larger = _bitwise("max", "||")


def _where(c: Operand, x: Operand, y: Operand) -> Node:
    nodes = _nodes(x, y)
    return operation("where", condition(_node(c)), *nodes, type=_common(*nodes))


def _multiply(x: Operand, y: Operand) -> Node:
    is_one = isinstance(y, (int, float)) and y == 1  # as in the alpha of a sum, and in a quotient of a number
    return _node(x) if is_one else _product(x, y)


def _truncated(x: Node) -> Node:
    return x if x.type != "fp32" else _where(_less(x, 0.0), _numeric("ceil")(x), _numeric("floor")(x))


def _divide(x: Operand, y: Operand, rounding_mode: str | None = None) -> Node:
    x, y = _nodes(x, y)
    if rounding_mode is None:
        return _real("/")(x, y)
    if rounding_mode == "floor":
        return _numeric("//")(x, y)
    if _common(x, y) == "fp32":
        return _truncated(_real("/")(x, y))
    quotient = _numeric("//")(_numeric("abs")(x), _numeric("abs")(y))
    return _where(_compared("!=")(_less(x, 0), _less(y, 0)), _numeric("-")(quotient), quotient)


def _fmod(x: Operand, y: Operand) -> Node:
    rest = _numeric("%")(_numeric("abs")(x), _numeric("abs")(y))
    return _where(_less(x, 0), _numeric("-")(rest), rest)


def _power(x: Operand, y: Operand) -> Node:
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        x = _node(x)
        if y in (2, 3, 4):
            square = _multiply(x, x)
            return square if y == 2 else _multiply(square, x if y == 3 else square)
        if y in (0.5, -0.5):
            return _real("sqrt" if y > 0 else "rsqrt")(x)
    x, y = _nodes(x, y)
    if _common(x, y) != "fp32":
        raise RefusedError("with whole numbers, which only fp32 has here; write products, or a shift for powers of 2")
    return _real("pow")(x, y)


def _clamp(x: Operand, least: Operand = None, most: Operand = None, **named: Operand) -> Node:
    least, most = named.get("min", least), named.get("max", most)
    if least is not None:
        x = _numeric("max")(x, least)
    return _node(x) if most is None else _numeric("min")(x, most)


def _to_copy(x: Operand, dtype: torch.dtype | None = None, **_: Any) -> Node:
    if dtype is None:
        return _node(x)
    if dtype in (torch.float16, torch.bfloat16):
        raise RefusedError(f"to round to {dtype}; functions compute in float32: take it out")
    if dtype in NARROW and _node(x).type != "bool":
        raise RefusedError(f"to cut a number to {dtype}; functions compute in int32: write & 255, for example")
    return converted(_node(x), type_of(dtype))


def _rounded(x: Operand, decimals: int = 0) -> Node:
    if decimals:
        raise RefusedError("with decimals; multiply, round and divide")
    return _numeric("round")(x)


OPERATIONS: dict[str, Callable[..., Node]] = {
    "add": lambda x, y, alpha=1: _add(x, _multiply(y, alpha)),
    "sub": lambda x, y, alpha=1: _subtract(x, _multiply(y, alpha)),
    "rsub": lambda x, y, alpha=1: _subtract(y, _multiply(x, alpha)),
    "mul": _multiply,
    "div": _divide,
    "true_divide": _divide,
    "floor_divide": _numeric("//"),
    "remainder": _numeric("%"),
    "fmod": _fmod,
    "pow": _power,
    "reciprocal": lambda x: _real("/")(1.0, x),
    "neg": _numeric("-"),
    "abs": _numeric("abs"),
    "sign": _numeric("sign"),
    "sgn": _numeric("sign"),
    "floor": _numeric("floor"),
    "ceil": _numeric("ceil"),
    "round": _rounded,
    "trunc": lambda x: _truncated(_node(x)),
    "relu": lambda x: _numeric("max")(x, 0),
    "minimum": _smaller,
    "maximum": _larger,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda x, most: _clamp(x, None, most),
    "lt": _less,
    "le": _compared("<="),
    "gt": _compared(">"),
    "ge": _compared(">="),
    "eq": _compared("=="),
    "ne": _compared("!="),
    "isnan": lambda x: _compared("!=")(x, x),
    "isinf": lambda x: _compared("==")(_numeric("abs")(x), float("inf")),
    "where": _where,
    "masked_fill": lambda x, c, y: _where(c, y, x),
    "bitwise_and": _bitwise("&", "&&"),
    "bitwise_or": _bitwise("|", "||"),
    "bitwise_xor": _bitwise("^", "!="),
    "bitwise_not": lambda x: operation("!" if _node(x).type == "bool" else "~", _node(x), type=_node(x).type),
    "logical_and": _logical("&&"),
    "logical_or": _logical("||"),
    "logical_xor": _logical("!="),
    "logical_not": _logical("!"),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__", "__ilshift__"), _numeric("<<")),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__", "__irshift__"), _numeric(">>")),
    **{name: _real(name) for name in ["exp", "exp2", "log", "log2", "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "cos"]},
    "_to_copy": _to_copy,
    "clone": lambda x, **_: _node(x),
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
    "tan": "write torch.sin(x) / torch.cos(x)",
    "arange": _WRITE,
}
DEFAULT_REMEDY = _HOLDS


def keeps_its_bits(name: str, dtype: torch.dtype) -> bool:
    """Whether an operation has the same result in int32 as in PyTorch's own type."""
    return dtype not in NARROW or name in _KEEP_NARROW or name == "_to_copy"
