"""A call without its arrays: it can be compared and hashed, so that JAX compiles it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..arrays import NAMES
from ..errors import invalid
from ..functions import is_captured
from ..request import Request, problem_of, read

_INPUTS = {
    "fwd": ("q", "k", "v"),
    "bwd": ("q", "k", "v", "o", "lse", "grad_o"),
    "append": ("k", "v", "k_new", "v_new"),
}


class Call(NamedTuple):
    pass_: str
    names: tuple[str, ...]  # of the arrays, in the order in which they are passed
    options: tuple[tuple[str, Any], ...]  # words of the problem
    requested: tuple[str, ...]  # optional outputs
    target: str | None
    family: str | None
    threads: int
    functions: str | None = None  # how score and keep are computed

    @property
    def layout(self) -> str:
        layout: str = dict(self.options).get("layout", "bshd")
        return layout

    def request(self, arrays: Mapping[str, Any]) -> Request:
        """The request for arrays of these shapes and types.

        Mismatches are reported while a program is traced, except where a size of 1 stands for all: the run reports it.
        """
        tensors = {name: array for name, array in arrays.items() if name != "seed"}
        inputs = {name: tensors.pop(name) for name in _INPUTS[self.pass_] if name in tensors}
        # The problem does not depend on the target; any name avoids asking the arrays where they are.
        options = {**tensors, **dict(self.options), "target": "cpu"}
        request = read(self.pass_, inputs, options, dict.fromkeys(self.requested, True))
        for name, spec in problem_of(request.text).tensors.items():
            if name in arrays and name != "seed" and not is_captured(name):  # which may be of any size and other types
                _check(name, arrays[name], spec)
        return request


def _check(name: str, array: Any, spec: Any) -> None:
    shape = tuple(array.shape)
    fits = len(shape) == len(spec.shape) and all(
        size in (expected, 1) for size, expected in zip(shape, spec.shape, strict=True)
    )
    if not fits:
        raise invalid(f"{name} has shape {list(shape)}; it must be {list(spec.shape)}")
    dtype = NAMES.get(spec.dtype, spec.dtype)
    if str(array.dtype) != dtype:
        raise invalid(f"{name} has dtype {array.dtype}; it must be {dtype}")
