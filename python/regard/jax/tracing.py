"""score= and keep= as text or as functions of jnp, and the arrays that they read among those of the call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ..errors import invalid, wrong_type
from ..functions import is_captured, name_for_messages, with_functions
from ..functions.closures import free_name
from ..functions.jax_trace import Traces
from ..functions.places import ARGUMENTS
from ..functions.tree import Named, filled
from .splash import is_mask, with_mask
from .values import as_jax

TRACES = Traces()
_BOOL, _INT64 = numpy.dtype("bool"), numpy.dtype("int64")


def with_text(options: dict[str, Any], q: jax.Array, k: jax.Array) -> dict[str, Any]:
    """The options with functions as text, and arrays by the names of their roles."""
    if is_mask(options.get("keep")):
        options = with_mask(options, q, k)
    if callable(options.get("score")) or callable(options.get("keep")):
        options = _traced(options)
    result = with_functions(options)
    return {
        name: _operand(name_for_messages(name, result), value) if is_captured(name) else value
        for name, value in result.items()
    }


def _traced(options: dict[str, Any]) -> dict[str, Any]:
    tensors = options.get("tensors")
    if not isinstance(tensors, (Mapping, type(None))):
        raise wrong_type(f"tensors is of type {type(tensors).__name__}; it must be a dict of arrays")
    named: dict[str, Any] = dict(tensors or {})
    result = dict(options)
    for purpose in ARGUMENTS:
        function = options.get(purpose)
        if callable(function):
            found = TRACES.of(purpose, function)
            names = [_named(named, purpose, *read) for read in found.arrays]
            shapes = [array.shape for array, _, _ in found.arrays]
            result[purpose] = _with_names(found.text, tuple(names), tuple(shapes))
    return {**result, "tensors": named} if named else result


@lru_cache(maxsize=1024)
def _with_names(text: str, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> str:
    return filled(text, [Named(name, shape) for name, shape in zip(names, shapes)])


def _named(named: dict[str, Any], purpose: str, array: Any, name: str, stopped: bool) -> str:
    """The name of an array, which is put among the others unless it is there."""
    for other, value in named.items():
        # A mask has no gradient, so that it may read what the score does.
        if value is array and (not stopped or purpose == "keep"):
            return other
    chosen = free_name(name, named)
    # What only keep reads needs no gradient either; an array that is not traced has none.
    has_gradient = purpose == "score" and not stopped
    named[chosen] = array if has_gradient or not isinstance(array, jax.core.Tracer) else jax.lax.stop_gradient(array)
    return chosen


def _operand(name: str, value: Any) -> jax.Array:
    array = as_jax(name, value)
    dtype = array.dtype
    if dtype == _BOOL:
        return array.astype(jnp.uint8)
    if dtype == _INT64:
        return array.astype(jnp.int32)
    if array.size == 0:
        raise invalid(f"{name}, which a function reads, has shape {list(array.shape)}; it must have elements")
    return array
