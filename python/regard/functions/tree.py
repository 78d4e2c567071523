"""Expressions of the language of functions, as tracers build them, and their text. C++ alone parses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy

from ..errors import invalid

T = TypeVar("T")

_TENSOR = re.compile(r"\{(\d+)")
_DEEPEST = 12  # brackets within brackets, before a local name takes the place of some


class Node:
    """An expression.

    name: an operator or a function of the language, "load", or, without operands, the text itself. type: "bool",
    "int32" or "fp32". low and high: what an int32 expression is never below and never above, None if unknown.
    """

    __slots__ = ("high", "low", "name", "operands", "type")

    def __init__(self, name: str, operands: Sequence[Node] = (), type: str = "int32") -> None:
        self.name, self.operands, self.type = name, tuple(operands), type
        self.low: int | None = None
        self.high: int | None = None
        if type == "bool":
            self.low, self.high = 0, 1
        elif operands and type == "int32" and name in _BOUNDS:
            self.low, self.high = _BOUNDS[name](*self.operands)


def operation(name: str, *operands: Node, type: str = "int32") -> Node:
    return Node(name, operands, type)


def variable(name: str) -> Node:
    node = Node(name, type="fp32" if name == "s" else "int32")
    if name != "s":
        node.low = 0
    return node


def literal(value: bool | int | float) -> Node:
    if isinstance(value, bool):
        return Node("true" if value else "false", type="bool")
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise invalid(f"{value} is not an int32, and functions compute whole numbers in int32")
        value = int(value)  # which may be of a class of its own
        node = Node(str(value) if value >= 0 else f"({value})")
        node.low = node.high = value
        return node
    if value != value:
        return Node("(inf-inf)", type="fp32")
    with numpy.errstate(over="ignore"):
        text = str(numpy.float32(value))
    return Node(f"({text})" if text.startswith("-") else text, type="fp32")


def size(tensor: int, dimension: int) -> Node:
    """How large a tensor is, which `filled` writes."""
    node = Node(f"{{{tensor}.shape[{dimension}]}}")
    node.low = 1
    return node


def load(tensor: int, indices: Sequence[Node], type: str) -> Node:
    return Node("load", [Node(f"{{{tensor}}}"), *indices], type)


def condition(node: Node) -> Node:
    """What is true where a number is not 0."""
    if node.type == "bool":
        return node
    return Node("!=", (node, literal(0 if node.type == "int32" else 0.0)), "bool")


def converted(node: Node, type: str) -> Node:
    if node.type == type:
        return node
    if type == "bool":
        return condition(node)
    return Node("float" if type == "fp32" else "int", (node,), type)


def written(root: Node) -> str:
    """The text, in which "{0}" is the name of a tensor and "{0.shape[1]}" one of its sizes. What is used more than once
    has a local name."""
    return _Writer(root).text


def with_read(text: str, tensors: Sequence[T]) -> tuple[str, tuple[T, ...]]:
    """The text, and those tensors that it reads, by new numbers: some may be read for what nothing uses."""
    numbers = sorted({int(number) for number in _TENSOR.findall(text)})
    renumbered = _TENSOR.sub(lambda found: f"{{{numbers.index(int(found[1]))}", text)
    return renumbered, tuple(tensors[number] for number in numbers)


class Named(str):
    """The name of a tensor, and its sizes, or what stands for them."""

    shape: tuple[int | str, ...]

    def __new__(cls, name: str, shape: Sequence[int | str]) -> Named:
        named = super().__new__(cls, name)
        named.shape = tuple(shape)
        return named


def filled(text: str, tensors: Sequence[Named]) -> str:
    """The text with the tensors' names and sizes."""
    return text.format(*tensors)


class _Writer:
    def __init__(self, root: Node) -> None:
        self._uses: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._locals: list[str] = []
        self._count(root)
        text = self._of(root)[0]
        self.text = ";".join([*self._locals, text])

    def _count(self, node: Node) -> None:
        self._uses[id(node)] = self._uses.get(id(node), 0) + 1
        if self._uses[id(node)] == 1:
            for operand in node.operands:
                self._count(operand)

    def _of(self, node: Node) -> tuple[str, int]:
        """The text, and how many brackets are within brackets."""
        if not node.operands:
            return node.name, 0
        if id(node) in self._names:
            return self._names[id(node)], 0
        texts = [self._of(operand) for operand in node.operands]
        depth = 1 + max(depth for _, depth in texts)
        text = _text(node.name, [text for text, _ in texts])
        if (self._uses[id(node)] > 1 or depth > _DEEPEST) and len(node.operands) + (node.name != "load") > 1:
            name = f"_{len(self._locals)}"
            self._locals.append(f"{name}={text}")
            self._names[id(node)] = name
            return name, 0
        return text, depth


def _text(name: str, operands: list[str]) -> str:
    if name == "load":
        tensor, *indices = operands
        return f"{tensor}[{','.join(indices)}]" if indices else tensor
    if name[0].isalpha():
        return f"{name}({','.join(operands)})"
    return f"({name}{operands[0]})" if len(operands) == 1 else f"({name.join(operands)})"


Bounds = tuple[Any, Any]


def _sum(x: Node, y: Node) -> Bounds:
    return _if_known(x.low, y.low, lambda a, b: a + b), _if_known(x.high, y.high, lambda a, b: a + b)


def _difference(x: Node, y: Node) -> Bounds:
    return _if_known(x.low, y.high, lambda a, b: a - b), _if_known(x.high, y.low, lambda a, b: a - b)


def _product(x: Node, y: Node) -> Bounds:
    if x.low is None or y.low is None or x.low < 0 or y.low < 0:
        return None, None
    return x.low * y.low, _if_known(x.high, y.high, lambda a, b: a * b)


def _quotient(x: Node, y: Node) -> Bounds:
    if y.low is None or y.low < 1 or x.low is None or x.low < 0:
        return None, None
    return 0, x.high


def _remainder(x: Node, y: Node) -> Bounds:
    if y.low is None or y.low < 1:
        return None, None
    return 0, None if y.high is None else y.high - 1


def _and(x: Node, y: Node) -> Bounds:
    known = [node.high for node in (x, y) if node.low is not None and node.low >= 0]
    highs = [high for high in known if high is not None]
    return (0 if known else None), min(highs, default=None)


def _smaller(x: Node, y: Node) -> Bounds:
    highs = [node.high for node in (x, y) if node.high is not None]
    return _if_known(x.low, y.low, min), min(highs, default=None)


def _larger(x: Node, y: Node) -> Bounds:
    lows = [node.low for node in (x, y) if node.low is not None]
    return max(lows, default=None), _if_known(x.high, y.high, max)


def _either(_: Node, x: Node, y: Node) -> Bounds:
    return _if_known(x.low, y.low, min), _if_known(x.high, y.high, max)


def _if_known(a: int | None, b: int | None, combine: Any) -> Any:
    return None if a is None or b is None else combine(a, b)


_BOUNDS: dict[str, Any] = {
    "+": lambda x, *y: _sum(x, *y) if y else (None, None),
    "-": lambda x, *y: _difference(x, *y) if y else (None, None),
    "*": _product,
    "//": _quotient,
    "%": _remainder,
    "&": _and,
    "min": _smaller,
    "max": _larger,
    "where": _either,
    "abs": lambda _: (0, None),
    "sign": lambda _: (-1, 1),
    "int": lambda x: (x.low, x.high),
}
