"""Tests of forward and backward passes where there is no backward pass: gradients are zeros.

Nothing is said of what a test asserts about them; what it asserts about results holds as ever.
"""

from __future__ import annotations

import linecache
import re
import traceback
import types
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

GRADIENT = re.compile(r"\bd[qkv]\w*|\.grad\b")


class Unrecorded(torch.autograd.Function):
    """A function whose intermediate tensors autograd does not keep, though its results say where they come from."""

    @staticmethod
    def forward(ctx: Any, function: Any, options: dict[str, Any], *inputs: Any) -> Any:
        return function(*inputs, **options)


def unrecorded(function: Any) -> Any:
    return lambda *inputs, **options: Unrecorded.apply(function, options, *inputs)


def leaves(node: Any) -> list[Tensor]:
    """The tensors that the graph behind a result begins with."""
    found, seen, todo = [], set(), [node]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        todo += [before for before, _ in node.next_functions]
    return found


class WithoutGradients:
    """Stands in for autograd, and knows whether gradients were asked for since `asked` was last False."""

    def __init__(self) -> None:
        self.asked = False
        torch.autograd.grad = self.grad  # type: ignore[assignment]
        torch.Tensor.backward = lambda result, *_, **__: self.backward(result)  # type: ignore[assignment]

    def grad(self, outputs: Any, inputs: Any, *_: Any, **__: Any) -> tuple[Tensor, ...]:
        self.asked = True
        return tuple(map(torch.zeros_like, [inputs] if isinstance(inputs, Tensor) else inputs))

    def backward(self, result: Tensor) -> None:
        self.asked = True
        for leaf in leaves(result.grad_fn):
            leaf.grad = torch.zeros_like(leaf)


def record_no_references(module: types.ModuleType) -> None:
    """A suite's own attention, in memory of the square of the length, keeps nothing for gradients."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType) and name.startswith("attention") and name.endswith("_ref"):
            setattr(module, name, unrecorded(value))


def is_about_gradients(error: BaseException) -> bool:
    """Whether it is an assertion of a test, whose line names a gradient."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    file = frame.f_code.co_filename
    is_of_test = isinstance(error, AssertionError) and Path(file).name.startswith("test_")
    return is_of_test and GRADIENT.search(linecache.getline(file, line)) is not None
