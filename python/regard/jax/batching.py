"""vmap: mapped calls become one call of a larger batch if that gives the same result, and otherwise run in sequence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from ..functions import is_captured
from .call import Call
from .run import Arrays, run

# The batch axis of these depends on the layout.
_SEQUENCES = ("q", "k", "v", "o", "grad_o", "grad_q", "grad_k", "grad_v")
# Their first axis is the batch, or 1 if all sequences share them.
_SHAREABLE = ("bias", "bits", "ranges")
_OF_BATCH = re.compile(r"\b(b|tq|tk)\b")  # what counts sequences, or all of their tokens, in functions
_OF_EACH = ("lengths_q", "lengths_k", "lse", "grad_lse", "grad_bias")


def _batch_axis(call: Call, name: str) -> int:
    return call.layout.index("b") if name in _SEQUENCES else 0


def _outputs(call: Call) -> list[str]:
    if call.pass_ == "fwd":
        return ["o", *call.requested]
    return ["grad_q", "grad_k", "grad_v", *call.requested]


def _folds(call: Call, b: int, arrays: dict[str, Any], mapped: dict[str, bool]) -> bool:
    """Whether the mapped calls are one call of a larger batch.

    Packed sequences share one row of tokens. A dropout mask depends on the index of the sequence, which starts again
    in each mapped call, and so does what functions may read. Gradients of inputs that all sequences share would be sums
    over all calls.
    """
    options = dict(call.options)
    captured = {name for name in arrays if is_captured(name)}
    known = {*_SEQUENCES, *_SHAREABLE, *_OF_EACH, "alibi", "sink", *captured}
    one_for_each = any(mapped.get(name, False) for name in ("sink", *captured))
    if "offsets_q" in arrays or one_for_each or not arrays.keys() <= known:
        return False
    if any(_OF_BATCH.search(options.get(name, "")) for name in ("score", "keep")) or "grads" in options:
        return False
    if call.pass_ == "fwd":
        return True
    return "sink" not in arrays and ("grad_bias" not in call.requested or arrays["bias"].shape[0] == b)


def _folded(call: Call, name: str, array: Any, mapped: bool, n: int, b: int) -> Any:
    """An array of one call as that of n calls; a mapped one has their axis in front."""
    if name == "sink" or is_captured(name):
        return array
    shared = array.ndim - mapped == 1 if name == "alibi" else name in _SHAREABLE and array.shape[int(mapped)] == 1
    if shared and not mapped and not (name == "bias" and "grad_bias" in call.requested):
        return array
    if not mapped:
        array = jnp.broadcast_to(array, (n, *array.shape))
    if shared:
        array = array[:, None] if name == "alibi" else array
        array = jnp.broadcast_to(array, (n, b, *array.shape[2:]))
    axis = _batch_axis(call, name)
    array = jnp.moveaxis(array, 0, axis)
    return array.reshape(*array.shape[:axis], n * b, *array.shape[axis + 2 :])


def _unfolded(call: Call, name: str, array: Any, n: int, b: int) -> Any:
    axis = _batch_axis(call, name)
    return jnp.moveaxis(array.reshape(*array.shape[:axis], n, b, *array.shape[axis + 1 :]), axis, 0)


@lru_cache(maxsize=1024)
def batched(call: Call) -> Any:
    """`run` for this call, with its vmap rule."""

    @jax.custom_batching.custom_vmap
    def mappable(*arrays: jax.Array) -> Arrays:
        return run(call, *arrays)

    def one_after_another(mapped: Sequence[bool], arrays: Sequence[Any]) -> Any:
        def one(some: Sequence[Any]) -> Any:
            rest = iter(some)
            return mappable(*[next(rest) if of_each else x for x, of_each in zip(arrays, mapped, strict=True)])

        return jax.lax.map(one, [x for x, of_each in zip(arrays, mapped, strict=True) if of_each])

    @mappable.def_vmap
    def rule(n: int, mapped: Sequence[bool], *arrays: Any) -> tuple[Arrays, tuple[bool, ...]]:
        is_mapped = dict(zip(call.names, mapped, strict=True))
        of_one = {
            name: array[0] if is_mapped[name] and n else array for name, array in zip(call.names, arrays, strict=True)
        }
        q = of_one.get("q")  # append has none
        b = 0 if q is None or q.ndim != 4 else q.shape[_batch_axis(call, "q")]
        if n == 0 or not _folds(call, b, of_one, is_mapped):
            results = one_after_another(mapped, arrays)
        else:
            folded = [
                _folded(call, name, x, of_each, n, b)
                for name, x, of_each in zip(call.names, arrays, mapped, strict=True)
            ]
            made = batched(call)(*folded)
            results = tuple(_unfolded(call, name, x, n, b) for name, x in zip(_outputs(call), made, strict=True))
        return results, (True,) * len(results)

    return mappable
