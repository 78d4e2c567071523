"""score= and keep= as Python functions: text in their place, and the tensors that they close over among tensors=."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..functions.places import ARGUMENTS
from ..functions.torch_trace import Traces
from ..functions.tree import Named, filled

TRACES = Traces()


def has_python(options: dict[str, Any]) -> bool:
    return callable(options.get("score")) or callable(options.get("keep"))


def with_text(options: dict[str, Any], q: Any) -> dict[str, Any]:
    """The options with functions as text. Raises RefusedError for what the language has not, with the line."""
    if torch.compiler.is_compiling():
        raise RefusedError(
            "a Python function as score or keep is not traced within torch.compile: call attention outside of it, or "
            "give the function as text"
        )
    tensors = options.get("tensors")
    if isinstance(tensors, str):
        raise invalid("tensors is text beside a Python function, which brings its own; give a dict of tensors")
    named: dict[str, Any] = dict(tensors) if isinstance(tensors, Mapping) else {}
    device = q.device if isinstance(q, Tensor) else torch.device("cpu")
    result = dict(options)
    for purpose in ARGUMENTS:
        function = options.get(purpose)
        if callable(function):
            traced = _trace()(purpose, function, device)
            names = [_named(named, purpose, *read) for read in traced.tensors]
            sizes = [tensor.shape for tensor, _, _ in traced.tensors]
            result[purpose] = filled(traced.text, [Named(name, size) for name, size in zip(names, sizes)])
    if named:
        result["tensors"] = named
    return result


def _trace() -> Any:
    """TRACES.of, past a compiler that may be at work around this call."""
    dynamo = sys.modules.get("torch._dynamo")
    return TRACES.of if dynamo is None else _past(dynamo)


@lru_cache(maxsize=1)
def _past(dynamo: Any) -> Any:
    return dynamo.disable(TRACES.of)


def _named(named: dict[str, Any], purpose: str, tensor: Tensor, name: str, detached: bool) -> str:
    """The name of a tensor, which is put among the others unless it is there."""
    for other, value in named.items():
        # A mask has no gradient, so that it may read what the score does.
        if value is tensor and (not detached or purpose == "keep"):
            return other
    chosen = re.sub(r"\W", "_", name, flags=re.ASCII) + "_"  # no word of the language ends in one
    while chosen in named:
        chosen += "_"
    named[chosen] = tensor.detach() if detached else tensor
    return chosen
