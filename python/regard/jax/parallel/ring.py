"""ring_attention: keys and values go from device to device, and the results of each are merged."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...words import whole
from ..attend import words_among
from ..call import Call
from ..gradients import attend, run_backward
from ..merging import merge
from ..values import hashable
from .problem import Problem
from .shards import Sequences

Arrays = tuple[jax.Array, ...]
_OF_FORWARD = ("splits", "batch_invariant")  # options that say how forward runs, not what it computes


def ring_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    axis_name: Any,
    causal: bool = False,
    offsets: Any = None,
    longest: int | None = None,
    lse: bool = False,
    **options: Any,
) -> Any:
    """Attention to the keys of all devices of a mesh axis, inside shard_map.

    q: [b, s, hq, d]; k: [b, s, hk, d]; v: [b, s, hk, dv]: this device's tokens; with causal=True those that `deal` puts
    there. With offsets, int32 [b + 1], where each whole sequence begins, the same on all devices, they are packed,
    [tokens, heads, dim]; `longest` is the longest whole sequence or a bound, which traced offsets need.

    XLA can send keys to the next device while this one attends to them. Results are merged in float32. In backward
    the gradients of keys and values, in float32, follow them around the ring, each computed from the merged O and LSE.

    Returns o, [b, s, hq, dv] or packed, this device's rows; (o, lse) with lse=True, as `attention` does. q, k and v
    have gradients, through both. options: scale, softcap, deterministic, batch_invariant, splits, target, family,
    threads. Windows are for `all_gather_attention` and `all_to_all_attention`.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    problem = Problem("ring_attention", (q, k, v), axis_name, causal, offsets, longest, options)
    options = dict(problem.options)
    target, family = (hashable(name, options.pop(name, None)) for name in ("target", "family"))
    threads = whole("threads", options.pop("threads", 0))
    ring = _Ring(
        problem.axis_name,
        problem.sequences[:1] + problem.sequences[2:],
        problem.causal,
        words_among(options),
        (target, family, threads),
    )
    return problem.results(*_ring(ring, problem.q, problem.k, problem.v, problem.sequences.offsets), lse)


class _Ring(NamedTuple):
    """What a compiled program knows: it can be hashed."""

    axis_name: Any
    sizes: tuple[Any, ...]  # of Sequences, without their offsets
    causal: bool
    options: tuple[tuple[str, Any], ...]
    plan_options: tuple[Any, ...]

    @property
    def ranks(self) -> int:
        return int(self.sizes[0])

    def on(self, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        """The arrays of the device before."""
        steps = [(i, (i + 1) % self.ranks) for i in range(self.ranks)]
        return tuple(jax.lax.ppermute(x, self.axis_name, steps) for x in arrays)

    def pairs(self, offsets: jax.Array, step: int) -> tuple[Arrays, dict[str, Any]]:
        """offsets_q and offsets_k of what this device's queries see of the keys that are here after `step` steps, and
        the words of their call.

        With a causal mask queries see, of their device's own keys, those up to their own; of an earlier device's keys,
        the first chunk; of a later device's keys, all, but only from the second chunk of queries. Sequence 2i is one
        half of sequence i, or all of it, and 2i + 1 the other, or nothing.
        """
        sequences = Sequences(self.ranks, offsets, *self.sizes[1:])
        words: dict[str, Any] = {"sq": sequences.longest, "sk": sequences.longest}
        if not self.causal or step == 0:
            return (offsets, offsets), {**words, "causal": True} if self.causal else words
        is_earlier = jax.lax.axis_index(self.axis_name) >= step
        halves = sequences.halves()
        first = jnp.concatenate((offsets[:1], jnp.repeat(offsets[1:], 2)))
        second = jnp.concatenate((jnp.repeat(offsets[:-1], 2), offsets[-1:]))
        return (jnp.where(is_earlier, first, halves), jnp.where(is_earlier, halves, second)), words

    def call(self, pass_: str, words: dict[str, Any], names: tuple[str, ...], requested: tuple[str, ...]) -> Call:
        options = [(name, value) for name, value in self.options if pass_ == "fwd" or name not in _OF_FORWARD]
        return Call(pass_, names, tuple(sorted((*options, *words.items()))), requested, *self.plan_options)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _ring(ring: _Ring, q: jax.Array, k: jax.Array, v: jax.Array, offsets: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _forward(ring, q, k, v, offsets)[0]


def _forward(ring: _Ring, q: Any, k: Any, v: Any, offsets: Any) -> tuple[tuple[jax.Array, jax.Array], Any]:
    keys, values = k, v
    dtype, o, lse = q.dtype, q, q  # none yet
    for step in range(ring.ranks):
        after = ring.on(keys, values) if step + 1 < ring.ranks else ()
        starts, words = ring.pairs(offsets, step)
        call = ring.call("fwd", words, ("q", "k", "v", "offsets_q", "offsets_k"), ("lse",))
        found, found_lse = attend(call, q, keys, values, *starts)
        dtype, found = found.dtype, found.astype(jnp.float32)
        if step == 0:
            o, lse = found, found_lse
        else:
            o, lse = merge(jnp.stack((o, found)), jnp.stack((lse, found_lse)))
        if after:
            keys, values = after
    o = o.astype(dtype)
    return (o, lse), (q, k, v, offsets, o, lse)


def _backward(ring: _Ring, kept: Any, cotangents: Any) -> tuple[Any, ...]:
    q, k, v, offsets, o, lse = kept
    keys, values = k, v
    grad_q, grad_k, grad_v = (jnp.zeros_like(x, jnp.float32) for x in (q, k, v))
    for step in range(ring.ranks):
        after = ring.on(keys, values) if step + 1 < ring.ranks else ()
        (offsets_q, offsets_k), words = ring.pairs(offsets, step)
        arrays = {"q": q, "k": keys, "v": values, "offsets_q": offsets_q, "offsets_k": offsets_k}
        arrays |= {"o": o, "lse": lse, "grad_o": cotangents[0], "grad_lse": cotangents[1]}
        call = ring.call("bwd", words, tuple(arrays), ())
        of_q, of_k, of_v = (x.astype(jnp.float32) for x in run_backward(call, *arrays.values()))
        grad_q = grad_q + of_q
        # After the last step they are on the device of these keys.
        grad_k, grad_v = ring.on(grad_k + of_k, grad_v + of_v)
        if after:
            keys, values = after
    return grad_q.astype(q.dtype), grad_k.astype(k.dtype), grad_v.astype(v.dtype), None


_ring.defvjp(_forward, _backward)
