"""all_gather_attention: every device gathers the keys and values of all."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import RefusedError
from ..attend import attention
from ..values import hashable
from .problem import Problem


def all_gather_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    axis_name: Any,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    offsets: Any = None,
    longest: int | None = None,
    lse: bool = False,
    **options: Any,
) -> Any:
    """Attention to the keys of all devices, which every device gathers, at the price of memory for all keys.

    Arrays, results and options are those of `ring_attention`. window=(left, 0) or, with causal=True, (left, any) lets
    each query see `left` keys to its left. In backward the gradients of keys and values are summed over the devices in
    float32.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    if window is not None:
        left, right = hashable("window", window)
        if not causal and right != 0:
            raise RefusedError("a window of all_gather_attention ends at the query: give window=(left, 0)")
        window = (left, 0)
    problem = Problem("all_gather_attention", (q, k, v), axis_name, causal, offsets, longest, options, window)
    sequences = problem.sequences
    words: dict[str, Any] = dict(problem.options)
    if sequences.in_chunks:
        index, offsets_k, sk = sequences.seen(jax.lax.axis_index(problem.axis_name))
        offsets_q, sq = sequences.halves(), sequences.longest // 2
        words |= {"causal": True} if window is None else {"window": window}
    else:
        index, offsets_k, sk = sequences.in_order(), sequences.offsets * sequences.ranks, 0
        offsets_q, sq, sk = sequences.offsets, sequences.longest, sequences.longest * sequences.ranks
    keys, values = (_gathered(problem.axis_name, sequences.tokens, index, x) for x in (problem.k, problem.v))
    words |= {"offsets_q": offsets_q, "offsets_k": offsets_k, "sq": sq, "sk": sk}
    o, found_lse = attention(problem.q, keys, values, lse=True, **words)
    return problem.results(o, found_lse, lse)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _gathered(axis_name: Any, tokens: int, index: jax.Array, x: jax.Array) -> jax.Array:
    """The rows of all devices' arrays, of `tokens` tokens each, that `index` names. A row may be there twice."""
    return jnp.take(jax.lax.all_gather(x, axis_name, tiled=True), index, 0)


def _forward(axis_name: Any, tokens: int, index: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _gathered(axis_name, tokens, index, x), index


def _backward(axis_name: Any, tokens: int, index: jax.Array, grad: jax.Array) -> tuple[None, jax.Array]:
    zeros = jnp.zeros((jax.lax.axis_size(axis_name) * tokens, *grad.shape[1:]), jnp.float32)
    of_all = zeros.at[index].add(grad.astype(jnp.float32))
    return None, jax.lax.psum_scatter(of_all, axis_name, tiled=True).astype(grad.dtype)


_gathered.defvjp(_forward, _backward)
