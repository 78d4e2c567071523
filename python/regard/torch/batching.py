"""torch.func.vmap over the operators.

Examples become sequences of one forward call if only q, k and v differ among them; otherwise, and for gradients,
which may be summed over sequences, there is a call for each example.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from .encoding import decode


def _for_all_sequences(name: str, option: Any) -> bool:
    """Whether an option applies to all sequences in the same way, however many there are."""
    if name in ("score", "keep"):  # which may depend on the number of the sequence
        return False
    if name in ("sink", "alibi", "descale_q", "descale_k", "descale_v"):
        return isinstance(option, Tensor) and option.dim() == 1
    if name in ("bias", "bits", "ranges"):
        return bool(option.dim() < (3 if name == "ranges" else 4) or option.shape[0] == 1)
    if name in ("cache", "pages"):  # with the sequences of all examples there are more
        return False
    return name == "window" or not isinstance(option, (Tensor, tuple))  # such as lengths, offsets and seeds


def forward_rule(operator: Any, without_memory: Any) -> Any:
    def rule(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        examples = info.batch_size
        options = decode(*arguments[3:])
        shared = all(dim is None for dim in tree_flatten(dims[3:], is_leaf=_is_none)[0])
        layout = options.get("layout", "bshd")
        shared = shared and examples > 0
        if not shared or options.get("dropout") or not all(_for_all_sequences(*option) for option in options.items()):
            return one_by_one(operator, without_memory, examples, dims, arguments)
        axis = layout.index("b")
        folded = [_folded(tensor, dim, axis, examples) for tensor, dim in zip(arguments[:3], dims)]
        o, lse, mask, row_max = operator(*folded, *arguments[3:])  # without dropout, so that mask has no elements
        rows = row_max.unflatten(0, (examples, -1)) if options.get("row_max") else row_max
        results = (o.unflatten(axis, (examples, -1)), lse.unflatten(0, (examples, -1)), mask, rows)
        return results, (axis, 0, None, 0 if options.get("row_max") else None)

    return rule


def each_rule(operator: Any, without_memory: Any) -> Any:
    return lambda info, dims, *arguments: one_by_one(operator, without_memory, info.batch_size, dims, arguments)


def _is_none(value: Any) -> bool:
    return value is None


def _folded(tensor: Tensor, dim: int | None, axis: int, examples: int) -> Tensor:
    if dim is None:
        tensor = tensor.unsqueeze(axis).expand(*tensor.shape[:axis], examples, *tensor.shape[axis:])
    else:
        tensor = tensor.movedim(dim, axis)
    return tensor.flatten(axis, axis + 1)


def one_by_one(operator: Any, without_memory: Any, examples: int, dims: Any, arguments: Any) -> tuple[Any, Any]:
    """The results of the operator for each example; without any examples they are empty, with the shapes from
    `without_memory`."""
    flat, spec = tree_flatten(arguments)
    flat_dims = tree_flatten(dims, is_leaf=_is_none)[0]

    def example(i: int) -> Any:
        return [one if dim is None else one.select(dim, i) for one, dim in zip(flat, flat_dims)]

    if not examples:
        none = [
            one if dim is None else one.new_empty(one.movedim(dim, 0).shape[1:]) for one, dim in zip(flat, flat_dims)
        ]
        found, of_results = tree_flatten(without_memory(*tree_unflatten(none, spec)))
        stacked = [one.new_empty((0, *one.shape)) for one in found]
    else:
        results = [tree_flatten(operator(*tree_unflatten(example(i), spec))) for i in range(examples)]
        of_results = results[0][1]
        stacked = [torch.stack(one) for one in zip(*[found for found, _ in results])]
    return tree_unflatten(stacked, of_results), tree_unflatten([0] * len(stacked), of_results)
