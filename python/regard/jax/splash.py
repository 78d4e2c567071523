"""Masks of splash attention (jax.experimental.pallas.ops.tpu.splash_attention) as keep= and bits=."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy

from ..arrays import pack_bits
from ..errors import RefusedError, invalid
from ..functions.tree import Named, Node, filled, literal, load, operation, variable, written

_MODULE = "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask"
_FUNCTION = "give a function, keep(b, h, q_idx, kv_idx)"


class _Said(NamedTuple):
    """A mask: both have to allow a key. What is None allows all."""

    node: Node | None = None
    array: Any = None  # bool [sq, sk] or [heads, sq, sk], of NumPy

    @property
    def allows_all(self) -> bool:
        return self.node is None and self.array is None


def is_mask(value: Any) -> bool:
    module: Any = sys.modules.get(_MODULE)
    return module is not None and isinstance(value, module.Mask)


def with_mask(options: dict[str, Any], q: Any, k: Any) -> dict[str, Any]:
    """The options with the mask in keep= as text and bits."""
    mask = options["keep"]
    result = {name: value for name, value in options.items() if name != "keep"}
    if q.ndim != 4 or k.ndim != 4 or any(options.get(name) is not None for name in ("page_table", "page_list")):
        raise RefusedError(
            "keep is a mask of splash attention, whose sequences are dense and of one length: for packed sequences and "
            f"pages {_FUNCTION}"
        )
    order = options["layout"] if options.get("layout") in ("bhsd", "sbhd") else "bshd"
    rows, keys = q.shape[order.index("s")], k.shape[order.index("s")]
    shape, of_heads = tuple(mask.shape), (q.shape[order.index("h")], rows, keys)
    if shape not in (of_heads, of_heads[1:]):
        raise invalid(f"keep is a mask of shape {list(shape)}; it must be {list(of_heads[1:])} or {list(of_heads)}")
    # Where sequences have lengths of their own, the diagonal that ends at the last key is not that of the mask.
    has_lengths = any(options.get(name) is not None for name in ("lengths_q", "lengths_k"))
    reader = _Reader(0 if has_lengths else keys - rows)
    said = reader.said(mask)
    if said.array is not None and options.get("bits") is not None:
        said = _Said(reader.node(said))
    if said.array is not None:
        packed = pack_bits(said.array)
        result["bits"] = packed.reshape(1, -1, *packed.shape[-2:])
    if said.node is not None:
        tensors = options.get("tensors") or {}
        if not isinstance(tensors, Mapping):
            raise invalid("tensors is text beside a mask, which brings its own; give a dict of arrays")
        own = {f"mask{i}_": array for i, array in enumerate(reader.arrays)}
        result["keep"] = filled(written(said.node), [Named(name, array.shape) for name, array in own.items()])
        result["tensors"] = {**tensors, **own}
    return result


class _Reader:
    def __init__(self, diagonal: int) -> None:
        """diagonal: the offset with which a mask ends at the last key."""
        self.arrays: list[Any] = []
        self._diagonal = diagonal
        self._module: Any = sys.modules[_MODULE]

    def said(self, mask: Any) -> _Said:
        known, kind = self._module, type(mask)
        if kind is known.FullMask:
            return _Said()
        if kind is known.NumpyMask:
            return _Said(array=numpy.asarray(mask.array))
        if kind is known.LogicalAnd:
            return _both(self.said(mask.left), self.said(mask.right))
        if kind is known.LogicalOr:
            return self._either(self.said(mask.left), self.said(mask.right))
        if kind is known.MultiHeadMask:
            return self._of_heads([self.said(of_head) for of_head in mask.masks])
        if kind is known.CausalMask:
            return _Said(_at_most(variable("kv"), self._row(mask, mask.offset)))
        if kind is known.LocalMask:
            return self._window(self._row(mask, mask.offset), *mask.window_size)
        if kind is getattr(known, "ChunkedCausalMask", None):
            row, size = self._row(mask, 0), literal(int(mask.chunk_size))
            same = operation("==", operation("//", row, size), operation("//", variable("kv"), size), type="bool")
            return _Said(operation("&&", same, _at_most(variable("kv"), row), type="bool"))
        raise RefusedError(f"keep is a {kind.__name__}, no mask that splash attention itself defines: {_FUNCTION}")

    def node(self, said: _Said) -> Node | None:
        """The same without bits."""
        if said.array is None:
            return said.node
        places = [variable(name) for name in ("h", "q", "kv")[-said.array.ndim :]]
        read = load(self._place(said.array), places, "bool")
        return read if said.node is None else operation("&&", said.node, read, type="bool")

    def _place(self, array: Any) -> int:
        for place, other in enumerate(self.arrays):
            if other.dtype == array.dtype and numpy.array_equal(other, array):
                return place
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _row(self, mask: Any, offset: Any) -> Node:
        """The row, which q_sequence may have in another order, on the diagonal."""
        row, offset = variable("q"), int(offset)
        if not numpy.array_equal(mask.q_sequence, numpy.arange(mask.shape[0])):
            row = load(self._place(numpy.asarray(mask.q_sequence, numpy.int32)), [row], "int32")
        elif offset and offset == self._diagonal:
            return variable("p")
        return operation("+", row, literal(offset)) if offset else row

    def _window(self, row: Node, left: Any, right: Any) -> _Said:
        sides = [(row, variable("kv"), left), (variable("kv"), row, right)]
        said = [_Said(_at_most(operation("-", x, y), literal(int(size)))) for x, y, size in sides if size is not None]
        return _both(*said) if len(said) == 2 else said[0] if said else _Said()

    def _either(self, one: _Said, other: _Said) -> _Said:
        if one.allows_all or other.allows_all:
            return _Said()
        if one.node is None and other.node is None:
            return _Said(array=one.array | other.array)
        nodes = [node for node in (self.node(one), self.node(other)) if node is not None]
        return _Said(operation("||", *nodes, type="bool"))

    def _of_heads(self, heads: list[_Said]) -> _Said:
        """Each head with the text of its kind, and its own bits."""
        arrays = [said.array for said in heads]
        shape = next((array.shape for array in arrays if array is not None), None)
        bits = None if shape is None else numpy.stack([numpy.ones(shape, bool) if x is None else x for x in arrays])
        kinds = {"" if said.node is None else written(said.node): said.node for said in heads}
        if len(kinds) == 1:
            return _Said(heads[0].node, bits)
        texts = list(kinds)
        numbers = [texts.index("" if said.node is None else written(said.node)) for said in heads]
        kind_of_head = load(self._place(numpy.array(numbers, numpy.int32)), [variable("h")], "int32")
        node = None
        for number, of_kind in enumerate(kinds.values()):
            is_kind = operation("==", kind_of_head, literal(number), type="bool")
            seen = is_kind if of_kind is None else operation("&&", is_kind, of_kind, type="bool")
            node = seen if node is None else operation("||", node, seen, type="bool")
        return _Said(node, bits)


def _at_most(x: Node, y: Node) -> Node:
    return operation("<=", x, y, type="bool")


def _both(one: _Said, other: _Said) -> _Said:
    nodes = [said.node for said in (one, other) if said.node is not None]
    arrays = [said.array for said in (one, other) if said.array is not None]
    node = operation("&&", *nodes, type="bool") if len(nodes) == 2 else nodes[0] if nodes else None
    array = arrays[0] & arrays[1] if len(arrays) == 2 else arrays[0] if arrays else None
    return _Said(node, array)
