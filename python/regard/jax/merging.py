"""merge for JAX: combines partial results of attention, each over some of the keys, into the result over all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..arrays import NAMES
from ..errors import invalid
from .values import as_jax

_TYPES = ("fp32", "bf16", "fp16")


def merge(partial_o: Any, partial_lse: Any, *, out: str | None = None) -> tuple[jax.Array, jax.Array]:
    """Merges results of the same queries over different keys into the result over all of these keys.

    partial_o: [parts, b, s, h, dv] or packed [parts, tokens, h, dv], float32, bfloat16 or float16; partial_lse: float32
    [parts, b, h, s] or packed [parts, h, tokens], in natural logarithm: what `attention(..., lse=True)` returns, for
    any number of parts. A part in which a row saw no key has LSE = -inf, and does not count: its gradients are 0.

    Returns (o, lse) of one part's shapes; out="fp32", "bf16" or "fp16" is the dtype of o, by default that of partial_o.
    merge consists of JAX's own operations, which XLA fuses with those around them and JAX differentiates.

    Raises InvalidError (a ValueError).
    """
    partial_o, partial_lse = as_jax("partial_o", partial_o), as_jax("partial_lse", partial_lse)
    shape, of_lse = partial_o.shape, partial_lse.shape
    if len(shape) not in (4, 5) or of_lse != (*shape[:-3], shape[-2], shape[-3]) or not shape[0]:
        raise invalid(
            f"partial_o has shape {list(shape)} and partial_lse {list(of_lse)}; they must be [parts, b, s, h, dv] and "
            "[parts, b, h, s], or [parts, tokens, h, dv] and [parts, h, tokens], with at least one part"
        )
    types = [NAMES[word] for word in _TYPES]
    if str(partial_o.dtype) not in types or partial_lse.dtype != jnp.float32:
        raise invalid(
            f"partial_o has dtype {partial_o.dtype} and partial_lse {partial_lse.dtype}; the first must be float32, "
            "bfloat16 or float16, and the second float32"
        )
    if out is not None and out not in _TYPES:
        raise invalid(f"out is {out!r}; it must be 'fp32', 'bf16' or 'fp16'")
    dtype = partial_o.dtype if out is None else jnp.dtype(NAMES[out])
    largest = jax.lax.stop_gradient(partial_lse.max(0))
    largest = jnp.where(largest == -jnp.inf, 0.0, largest)  # of rows without any key
    weights = jnp.exp(partial_lse - largest)
    total = weights.sum(0)
    lse = jnp.where(total > 0, jnp.log(jnp.where(total > 0, total, 1.0)) + largest, -jnp.inf)
    rows = jnp.swapaxes(weights / jnp.where(total > 0, total, 1.0), -1, -2)[..., None]
    is_empty = jnp.swapaxes(partial_lse == -jnp.inf, -1, -2)[..., None]
    o = (rows * jnp.where(is_empty, 0.0, partial_o.astype(jnp.float32))).sum(0)
    return o.astype(dtype), lse
