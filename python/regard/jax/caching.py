"""append: new keys and values in a KV cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from ..errors import invalid
from ..unknown import refuse_unknown
from ..words import whole
from .attend import arrays_among, refuse_others, words_among
from .batching import batched
from .call import Call
from .run import Arrays
from .sharded import with_equal_axes
from .values import hashable


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def _compiled(call: Call, k: jax.Array, v: jax.Array, *arrays: jax.Array) -> Arrays:
    results: Arrays = batched(call)(*with_equal_axes((k, v, *arrays))[0])
    return results


def append(k: Any, v: Any, k_new: Any, v_new: Any, **options: Any) -> Arrays:
    """Writes new keys and values into a KV cache: `regard.append`, whose documentation has the options.

    Returns (k, v), with descale="token" also descale_k and descale_v, which are written as well. k and v are donated:
    the results take their memory, and the arrays that were passed can no longer be used. Inside of a compiled program
    they take it if the program does not use them again, and it was given them by donation (donate_argnames of jax.jit).

    There are no gradients.
    """
    target, family = (hashable(name, options.pop(name, None)) for name in ("target", "family"))
    threads = whole("threads", options.pop("threads", None) or 0)
    refuse_others(options)
    refuse_unknown(options)
    arrays = arrays_among({"k": k, "v": v, "k_new": k_new, "v_new": v_new})
    if len(arrays) < 4:
        raise invalid("k, v, k_new and v_new are all needed: the cache and the new tokens")
    arrays |= arrays_among(options)
    call = Call("append", tuple(arrays), words_among(options), (), target, family, threads)
    results: Arrays = _compiled(call, *arrays.values())
    return results
