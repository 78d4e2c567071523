"""all_to_all_attention: each device has all tokens of some heads while it attends (Ulysses)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...errors import RefusedError
from ..attend import attention
from .problem import Problem


def all_to_all_attention(
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
    """Attention for which the devices exchange tokens for heads, and back: hq and hk must be multiples of the number
    of devices.

    Arrays, results and options are those of `ring_attention`; window=(left, right) is that of `attention`.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    problem = Problem("all_to_all_attention", (q, k, v), axis_name, causal, offsets, longest, options, window)
    sequences, ranks, axis = problem.sequences, problem.ranks, problem.axis_name
    given = {"q": problem.q, "k": problem.k, "v": problem.v}
    for name, x in given.items():
        if x.shape[1] % ranks:
            raise RefusedError(f"{name} has {x.shape[1]} heads, which {ranks} devices cannot share: use ring_attention")
    order = sequences.in_order()
    whole = [jnp.take(jax.lax.all_to_all(x, axis, 1, 0, tiled=True), order, 0) for x in given.values()]
    starts, most = sequences.offsets * ranks, sequences.longest * ranks
    words: dict[str, Any] = {"offsets_q": starts, "offsets_k": starts, "sq": most, "sk": most, **problem.options}
    if problem.causal:
        words["causal"] = True
    if window is not None:
        words["window"] = window
    o, found_lse = attention(*whole, lse=True, **words)
    back = jnp.argsort(order)
    whole = [jnp.take(x, back, 0) for x in (o, jnp.swapaxes(found_lse, 0, 1))]
    o, rows = (jax.lax.all_to_all(x, axis, 0, 1, tiled=True) for x in whole)
    return problem.results(o, jnp.swapaxes(rows, 0, 1), lse)
