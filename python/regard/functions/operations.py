"""Expressions of operations that PyTorch and JAX have, from expressions and numbers of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import RefusedError
from .tree import Node, condition, literal, operation

Operand = Any  # a Node, or a number of Python


def node_of(value: Operand) -> Node:
    return value if isinstance(value, Node) else literal(value)


def nodes_of(*values: Operand) -> list[Node]:
    return [node_of(value) for value in values]


def common(*nodes: Node) -> str:
    return max((node.type for node in nodes), key=("bool", "int32", "fp32").index)


def numeric(name: str) -> Callable[..., Node]:
    """An operation whose result has the type of its operands."""

    def make(*values: Operand) -> Node:
        nodes = nodes_of(*values)
        return operation(name, *nodes, type=common(*nodes))

    return make


def real(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *nodes_of(*values), type="fp32")


def compared(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *nodes_of(*values), type="bool")


def bitwise(name: str, of_conditions: str) -> Callable[..., Node]:
    """An operation that has another sign between conditions."""

    def make(*values: Operand) -> Node:
        nodes = nodes_of(*values)
        kind = common(*nodes)
        return operation(of_conditions if kind == "bool" else name, *nodes, type=kind)

    return make


def logical(name: str) -> Callable[..., Node]:
    return lambda *values: operation(name, *[condition(node_of(value)) for value in values], type="bool")


add = bitwise("+", "||")
subtract = numeric("-")
product = bitwise("*", "&&")
less = compared("<")
smaller = bitwise("min", "&&")
larger = bitwise("max", "||")


def where(c: Operand, x: Operand, y: Operand) -> Node:
    nodes = nodes_of(x, y)
    return operation("where", condition(node_of(c)), *nodes, type=common(*nodes))


def multiply(x: Operand, y: Operand) -> Node:
    is_one = isinstance(y, (int, float)) and y == 1  # as in the alpha of a sum, and in a quotient of a number
    return node_of(x) if is_one else product(x, y)


def truncated(x: Node) -> Node:
    return x if x.type != "fp32" else where(less(x, 0.0), numeric("ceil")(x), numeric("floor")(x))


def divide(x: Operand, y: Operand, rounding_mode: str | None = None) -> Node:
    x, y = nodes_of(x, y)
    if rounding_mode is None:
        return real("/")(x, y)
    if rounding_mode == "floor":
        return numeric("//")(x, y)
    if common(x, y) == "fp32":
        return truncated(real("/")(x, y))
    quotient = numeric("//")(numeric("abs")(x), numeric("abs")(y))
    return where(compared("!=")(less(x, 0), less(y, 0)), numeric("-")(quotient), quotient)


def fmod(x: Operand, y: Operand) -> Node:
    rest = numeric("%")(numeric("abs")(x), numeric("abs")(y))
    return where(less(x, 0), numeric("-")(rest), rest)


def power(x: Operand, y: Operand) -> Node:
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        x = node_of(x)
        if y in (2, 3, 4):
            square = multiply(x, x)
            return square if y == 2 else multiply(square, x if y == 3 else square)
        if y in (0.5, -0.5):
            return real("sqrt" if y > 0 else "rsqrt")(x)
    x, y = nodes_of(x, y)
    if common(x, y) != "fp32":
        raise RefusedError("with whole numbers, which only fp32 has here; write products, or a shift for powers of 2")
    return real("pow")(x, y)


def clamp(x: Operand, least: Operand = None, most: Operand = None, **named: Operand) -> Node:
    least, most = named.get("min", least), named.get("max", most)
    if least is not None:
        x = numeric("max")(x, least)
    return node_of(x) if most is None else numeric("min")(x, most)


def rounded(x: Operand, decimals: int = 0) -> Node:
    if decimals:
        raise RefusedError("with decimals; multiply, round and divide")
    return numeric("round")(x)
