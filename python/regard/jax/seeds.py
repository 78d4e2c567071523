"""Seed and offset of dropout, in the four 32-bit words that a program passes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ..errors import invalid, wrong_type
from ..words import quote, whole


def words_of_key(key: Any) -> jax.Array:
    """The same words for the same key, whatever kind of key it is."""
    try:
        return jax.random.bits(key, (4,), jnp.uint32)
    except (TypeError, ValueError) as error:
        raise wrong_type(f"key is {quote(key)}; it must be one key of jax.random such as jax.random.key(0)") from error


def words_of_numbers(seed: Any, offset: Any) -> numpy.ndarray[Any, Any]:
    numbers = []
    for name, value in (("seed", seed), ("offset", offset)):
        if isinstance(value, jax.core.Tracer):
            raise invalid(f"{name} is traced; pass key=, a key of jax.random, which may be")
        number = whole(name, value)
        if not 0 <= number < 2**64:
            raise invalid(f"{name} is {number}; it must be 0 to 2^64 - 1")
        numbers.append(number)
    return numpy.array(numbers, numpy.uint64).view(numpy.uint32)
