"""append: new keys and values in a KV cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from ..errors import invalid
from ..kv_cache import refuse_no_values
from ..unknown import refuse_unknown
from ..words import whole
from .attend import arrays_among, refuse_others, words_among
from .batching import batched
from .call import Call
from .run import Arrays
from .sharded import with_equal_axes
from .values import hashable, way_of_functions


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _compiled(call: Call, cache: Arrays, *arrays: jax.Array) -> Arrays:
    results: Arrays = batched(call)(*with_equal_axes((*cache, *arrays))[0])
    return results


def append(k: Any, v: Any, k_new: Any, v_new: Any, **options: Any) -> Arrays:
    """Writes new keys and values into a KV cache: `regard.append`, whose documentation has the options.

    Returns (k, v), with descale="token" also descale_k and descale_v, which are written as well. k and v are donated:
    the results take their memory, and the arrays that were passed can no longer be used. Inside a compiled program the
    memory is reused only if they are donated to the program (donate_argnames of jax.jit) and not used again.
    A latent cache (v=None and v_new=None, with dv= or k_rope=) returns (k,) or (k, k_rope), with factors of columns
    (k, descale_k, k_rope).

    k: [sequences, s, hk, d]; v: [sequences, s, hk, dv], or pages; k_new: [b, s_new, hk, d]; v_new: [b, s_new, hk, dv].

    There are no gradients.

    Raises InvalidError (a ValueError) for other shapes and types, unknown options, and an array that is missing;
    RefusedError (a NotImplementedError) for what nothing here solves. Errors that only show when a program runs are
    raised by JAX, as those of `attention`.
    """
    target, family = (hashable(name, options.pop(name, None)) for name in ("target", "family"))
    functions = way_of_functions(options.pop("functions", None))
    threads = whole("threads", options.pop("threads", None) or 0)
    refuse_others(options)
    refuse_unknown(options)
    if v is None and v_new is None:
        refuse_no_values(options)
        cache, new = arrays_among({"k": k, "k_rope": options.pop("k_rope", None)}), arrays_among({"k_new": k_new})
        needed = "k and k_new are", cache.keys() >= {"k"} and len(new) == 1
    else:
        cache, new = arrays_among({"k": k, "v": v}), arrays_among({"k_new": k_new, "v_new": v_new})
        needed = "k, v, k_new and v_new are all", len(cache) == len(new) == 2
    if not needed[1]:
        raise invalid(f"{needed[0]} needed: the cache and the new tokens")
    new |= arrays_among(options)
    call = Call("append", (*cache, *new), words_among(options), (), target, family, threads, functions)
    results: Arrays = _compiled(call, tuple(cache.values()), *new.values())
    return results
