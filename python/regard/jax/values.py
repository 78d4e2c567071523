"""Parses arguments: JAX arrays, or Python values that become part of the compiled program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ..errors import RefusedError, invalid, wrong_type
from ..words import PAIR, plain, quote, refuse_empty_way

_INT32 = numpy.iinfo(numpy.int32)


def as_jax(name: str, value: Any) -> jax.Array:
    try:
        array = value if isinstance(value, jax.Array) else jnp.asarray(value)  # which takes microseconds
    except (TypeError, ValueError) as error:
        raise invalid(f"{name} is not an array that JAX accepts: {str(error).splitlines()[0]}") from error
    if any([type(size) is not int and jax.export.is_symbolic_dim(size) for size in array.shape]):
        shape = ", ".join(map(str, array.shape))
        raise RefusedError(f"{name} has the symbolic shape [{shape}]: export a program for each shape, in numbers")
    return array


def int32_array(name: str, value: Any) -> jax.Array:
    """Integers as int32. Values out of range are clamped, as JAX may not know them while tracing: the run then refuses
    the clamped value as a length, whereas a value that wrapped around could pass for one."""
    array = as_jax(name, value if isinstance(value, jax.Array) else _checked_int32(name, value))
    if array.dtype == jnp.int32:
        return array
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise invalid(f"{name} has dtype {array.dtype}; it must be int32")
    if array.dtype.itemsize >= 4:
        limits = numpy.iinfo(array.dtype)
        array = jnp.clip(array, max(limits.min, _INT32.min), _INT32.max)
    return array.astype(jnp.int32)


def _checked_int32(name: str, value: Any) -> Any:
    try:
        numbers = numpy.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list with a traced element
        return value
    if numbers.dtype.kind in "iu" and numbers.size and not _INT32.min <= numbers.min() <= numbers.max() <= _INT32.max:
        raise invalid(f"{name} has numbers that do not fit into int32")
    return numbers.astype(numpy.int32) if numbers.dtype.kind in "iu" or numbers.size == 0 else numbers


def switch(name: str, asked: Any) -> bool:
    refuse_traced(name, asked)
    if asked is None or isinstance(asked, (bool, numpy.bool_)):
        return bool(asked)
    raise invalid(f"{name} is {quote(asked)}; it must be True or False")


def number(name: str, value: Any) -> Any:
    """None stays None."""
    refuse_traced(name, value)
    value = plain(name, value, "a number")
    if isinstance(value, str):
        raise wrong_type(f"{name} is {quote(value)}; it must be a number")
    return value


def hashable(name: str, value: Any) -> Any:
    """Text, a number, a switch, or a tuple of those."""
    refuse_traced(name, value)
    if name == "window" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(hashable(name, part) for part in value)
    return plain(name, value, PAIR if name == "window" else "")


def way_of_functions(value: Any) -> Any:
    """The option functions=, which the compiled program has as text: there "" stands for None."""
    refuse_empty_way(value)
    return hashable("functions", value)


def refuse_traced(name: str, value: Any) -> None:
    if name == "mask" and isinstance(value, jax.Array):
        raise invalid("mask is an array, and the option takes text: pass bits=regard.jax.pack_bits(mask)")
    if isinstance(value, jax.core.Tracer):
        raise invalid(
            f"{name} is traced, and the option takes a Python value, as a part of the compiled program: "
            "name it in static_argnames of jax.jit, or close over it"
        )
