"""attention: turns arrays and options into a call."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from .. import _core
from ..arrays import longest
from ..errors import invalid
from ..kv_cache import refuse_no_values
from ..shapes import warn_if_swapped
from ..unknown import refuse_unknown
from ..words import whole
from . import gradients
from .call import Call
from .run import Arrays
from .seeds import words_of_key, words_of_numbers
from .sharded import with_equal_axes
from .tracing import with_text
from .values import as_jax, hashable, int32_array, number, switch, way_of_functions

_ROLES = frozenset(_core.roles())
_RESULTS = frozenset(
    (
        "o",
        "lse",
        "dropout_mask",
        "row_max",
        "grad_q",
        "grad_k",
        "grad_v",
        "grad_bias",
        "grad_o",
        "grad_lse",
        "grad_sink",
    )
)
_OF_CACHES = (
    "cache_index",
    "last_page_lengths",
    "left_padding",
    "offsets_new",
    "page_list",
    "page_offsets",
    "page_table",
    "positions",
    "slots",
)
_WHOLE = ("offsets_q", "offsets_k", "lengths_q", "lengths_k", "ranges", *_OF_CACHES)
_RANKS = {"bias": 4, "bits": 4, "ranges": 3}


@partial(jax.jit, static_argnums=0)
def _compiled(call: Call, *arrays: jax.Array) -> Arrays:
    results: Arrays = gradients.attend(call, *with_equal_axes(arrays)[0])
    return results


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    lse: bool = False,
    dropout_mask: bool = False,
    row_max: bool = False,
    key: Any = None,
    **options: Any,
) -> Any:
    """Fused attention: softmax(scale Q K^T + ...) V.

    q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]: float32, bfloat16 or float16, forward also
    float8_e4m3fn, float8_e5m2 and, on CPUs and AMD's GPUs, float8_e4m3fnuz and float8_e5m2fnuz; hq is a multiple of
    hk. layout="bhsd" or "sbhd" selects another order of the axes; without it, [b, h, s, d] would run as [b, s, h, d],
    with a wrong result. With offsets_q and offsets_k (int32 [b+1]) the arrays are packed sequences [tokens, heads,
    dim]; if the offsets are traced, sq and sk have to give the longest sequence lengths.

    Returns o, [b, sq, hq, dv] in the same layout; (o, lse) with lse=True, where lse is float32 [b, hq, sq] (packed:
    [hq, tokens]) in natural logarithm; dropout_mask=True adds the uint8 mask, for tests; row_max=True adds each row's
    largest score, shaped like lse; it has no gradient.

    Options are those of `regard.attention`: causal, window, sink_tokens or mask; ranges, bits; scale, softcap, bias,
    alibi, sink; dropout; lengths_q, lengths_k; descale_q, descale_k, descale_v; layout; out, the dtype of o as text;
    deterministic, batch_invariant; splits, target, family, threads. Arrays may be traced; all others are Python values.

    score and keep are text, which reads the arrays in tensors=, or functions of jnp, score(score, b, h, q_idx, kv_idx)
    and keep(b, h, q_idx, kv_idx), which read the arrays that they close over. Both have gradients of floating-point
    arrays that score reads. What functions cannot compute is refused with a sentence that names the line. keep may also
    be a mask of jax.experimental.pallas.ops.tpu.splash_attention, of shape [sq, sk] or [hq, sq, sk].

    Dropout takes a `key` of jax.random, or integers as seed and offset. The same key draws the same mask. Weights are
    kept with a probability that is a multiple of 1/256, and divided by it; keep_scale replaces that factor.

    With page_table, int32 [b, n], k and v are a KV cache in pages [pages, page, hk, d]; with cache_index, int32 [b],
    one of [sequences, s, hk, d]. k_new and v_new [b, s_new, hk, d] are written into it first, after lengths_k tokens of
    each sequence, and the changed k and v are further results. XLA writes into the same memory if the compiled program
    does not use the cache again, and it is donated to it (donate_argnames of jax.jit). Caches have no gradients.

    Latent attention (MLA): v=None says that v is the first dv columns of k: give dv=, or the columns of k after them as
    an array of its own, k_rope=. There are no gradients. With k_new the changed k, and k_rope, are further results.

    q, k, v, bias and sink have gradients, in reverse mode. A row that sees no key gives O = 0 and LSE = -inf. Rows past
    a logical length are 0.

    Raises InvalidError (a ValueError) for invalid input and RefusedError (a NotImplementedError) for problems that
    nothing here solves. Errors that only show when a program runs are raised by JAX, with the same message: as a
    JaxRuntimeError or a ValueError.
    """
    arrays = {"q": _array("q", q), "k": _array("k", k)}
    options = with_text(options, arrays["q"], arrays["k"])
    if v is None:
        refuse_no_values(options)
    else:
        arrays["v"] = _array("v", v)
    if "layout" not in options and arrays["q"].ndim == arrays["k"].ndim == 4:
        warn_if_swapped(*arrays["q"].shape[1:3], *arrays["k"].shape[1:3])
    target, family = (hashable(name, options.pop(name, None)) for name in ("target", "family"))
    functions = way_of_functions(options.pop("functions", None))
    threads = whole("threads", options.pop("threads", None) or 0)
    drawn = {name: options.pop(name) for name in ("seed", "offset") if options.get(name) is not None}
    refuse_others(options)
    refuse_unknown(options)
    arrays |= arrays_among(options)
    for name, longest_of in (("offsets_q", "sq"), ("offsets_k", "sk")):
        if name in arrays and options.get(longest_of) is None:
            options[longest_of] = _longest(name, arrays[name], longest_of)
    if number("dropout", options.get("dropout")):
        arrays["seed"] = _seed(key, drawn)
    elif drawn:
        raise invalid("seed and offset are those of dropout, which is not given")
    words = words_among(options)
    optional = {"lse": lse, "dropout_mask": dropout_mask, "row_max": row_max}
    requested = tuple(name for name, asked in optional.items() if switch(name, asked))
    call = Call("fwd", tuple(arrays), words, requested, target, family, threads, functions)
    results = _compiled(call, *arrays.values())
    return results[0] if len(results) == 1 else results


def arrays_among(options: dict[str, Any]) -> dict[str, jax.Array]:
    """Takes them out of the options."""
    given = {name: options.pop(name) for name in [name for name in options if name in _ROLES]}
    return {name: _array(name, value) for name, value in given.items() if value is not None and value is not False}


def words_among(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, hashable(name, value)) for name, value in options.items() if value is not None))


def refuse_others(options: dict[str, Any]) -> None:
    for name in options.keys() & _RESULTS:
        raise invalid(f"{name} is not an option: results of JAX are new arrays")
    if "stream" in options:
        raise invalid("stream is not an option: a program runs in the stream that XLA chooses")
    if "dtype" in options:
        raise invalid("dtype is not an option: JAX has every type that attention takes")
    if not isinstance(options.get("out", ""), (str, type(None))):
        raise invalid("out is an array, and results of JAX are new ones; it takes a dtype as text, such as 'fp32'")


def _array(name: str, value: Any) -> jax.Array:
    array = int32_array(name, value) if name in _WHOLE else as_jax(name, value)
    rank = _RANKS.get(name, 0)
    return array.reshape(*(1,) * (rank - array.ndim), *array.shape) if 0 < array.ndim < rank else array


def _longest(name: str, offsets: jax.Array, option: str) -> int:
    if isinstance(offsets, jax.core.Tracer):
        raise invalid(f"{name} is traced: give {option}, the length of the longest sequence or a bound above it")
    return longest(name, offsets)


def _seed(key: Any, drawn: dict[str, Any]) -> Any:
    if key is not None and drawn:
        raise invalid("dropout takes either key, or seed and offset")
    if key is not None:
        return words_of_key(key)
    if "seed" not in drawn:
        raise invalid("dropout needs key=, a key of jax.random such as jax.random.key(0), or seed= and offset=")
    return words_of_numbers(drawn["seed"], drawn.get("offset", 0))
