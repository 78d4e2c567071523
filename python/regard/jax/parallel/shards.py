"""Which tokens a device has.

Each sequence is cut into 2 * ranks chunks, and device r of a mesh axis has the chunks r and 2 * ranks - 1 - r, one
after the other: with a causal mask all devices then have the same amount to compute (DualChunkSwap).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy

from ...errors import invalid
from ...words import whole
from ..values import as_jax, int32_array


class Sequences(NamedTuple):
    """Packed sequences, of each of which every device has the same number of tokens.

    offsets: int32 [b + 1], where each sequence begins among a device's tokens; longest: the most tokens that one has
    there; tokens: the total there. Without `in_chunks` nothing depends on the order of the tokens of a sequence, and
    each device has one chunk of it.
    """

    ranks: int
    offsets: jax.Array
    longest: int
    tokens: int
    in_chunks: bool

    def halves(self) -> jax.Array:
        """Offsets of the two chunks of each sequence of a device, [2 b + 1]."""
        first, last = self.offsets[:-1], self.offsets[1:]
        return jnp.concatenate((jnp.stack((first, (first + last) // 2), 1).ravel(), self.offsets[-1:]))

    def places(self, sequence: jax.Array, position: jax.Array) -> jax.Array:
        """The indices, among the tokens of all devices, of the tokens at these positions of these sequences."""
        lengths = jnp.diff(self.offsets)
        chunk = jnp.maximum(lengths // 2 if self.in_chunks else lengths, 1)[sequence]
        number, row = position // chunk, position % chunk
        late = (number >= self.ranks) & self.in_chunks
        rank = jnp.where(late, 2 * self.ranks - 1 - number, number)
        place = rank * self.tokens + self.offsets[sequence] + jnp.where(late, chunk, 0) + row
        # Rows after the last sequence belong to none: any valid index will do.
        return jnp.clip(place, 0, self.ranks * self.tokens - 1)

    def in_order(self) -> jax.Array:
        """The indices, among the tokens of all devices, of the tokens of all sequences, one after the other."""
        return self.places(*_located(self.offsets * self.ranks, self.ranks * self.tokens))

    def seen(self, rank: jax.Array) -> tuple[jax.Array, jax.Array, int]:
        """The keys that this device's chunks see with a causal mask: their indices among the tokens of all devices, the
        offsets of each chunk's keys, as `halves` for the queries, and the most keys of a chunk."""
        chunk = jnp.diff(self.offsets) // 2
        counts = jnp.stack(((rank + 1) * chunk, (2 * self.ranks - rank) * chunk), 1).ravel()
        starts = jnp.concatenate((jnp.zeros_like(counts[:1]), jnp.cumsum(counts))).astype(jnp.int32)
        half, position = _located(starts, (2 * self.ranks + 1) * (self.tokens // 2))
        return self.places(half // 2, position), starts, self.ranks * self.longest


def _located(starts: jax.Array, total: int) -> tuple[jax.Array, jax.Array]:
    """The sequence of each of `total` tokens, and its position there."""
    token = jnp.arange(total, dtype=starts.dtype)
    sequence = jnp.clip(jnp.searchsorted(starts[1:], token, side="right"), 0, len(starts) - 2)
    return sequence, token - starts[sequence]


def dense_sequences(ranks: int, b: int, s: int, in_chunks: bool) -> Sequences:
    if in_chunks and s % 2:
        raise invalid(
            f"each device has {s} tokens of a sequence; causal attention needs two equal chunks, as regard.jax.deal "
            "makes them"
        )
    return Sequences(ranks, jnp.arange(b + 1, dtype=jnp.int32) * s, s, b * s, in_chunks)


def packed_sequences(ranks: int, offsets: Any, longest: Any, tokens: int, in_chunks: bool) -> Sequences:
    """offsets, longest: of whole sequences; tokens: those of a device."""
    is_known, given = not isinstance(offsets, jax.core.Tracer), offsets
    offsets = int32_array("offsets", given)
    if offsets.ndim != 1 or not len(offsets):
        raise invalid("offsets must be int32 [b + 1]: where each whole sequence begins, and where the last one ends")
    parts = ranks * (2 if in_chunks else 1)
    if is_known:  # jnp.asarray may trace it
        known = numpy.asarray(given)
        lengths = numpy.diff(known)
        if (lengths % parts).any() or int(known[-1]) != tokens * ranks:
            raise invalid(
                f"offsets are {known.tolist()} and a device has {tokens} tokens; each sequence must "
                f"have a multiple of {parts} tokens, of which every device has the same number"
            )
        longest = int(lengths.max(initial=0)) if longest is None else longest
    if longest is None:
        raise invalid("offsets are traced: give longest, the length of the longest sequence or a bound above it")
    longest = -(-whole("longest", longest) // parts) * (2 if in_chunks else 1)
    return Sequences(ranks, offsets // ranks, longest, tokens, in_chunks)


def deal(x: Any, ranks: int, *, axis: int = 1, offsets: Any = None) -> jax.Array:
    """Reorders tokens of whole sequences so that shard_map gives each of `ranks` devices along `axis` its chunks.

    Each sequence is cut into 2 * ranks chunks, and device r gets the chunks r and 2 * ranks - 1 - r, joined. With
    offsets, int32 [b + 1], x is packed, [tokens, ...], and each sequence in it is cut likewise; lengths must be
    multiples of 2 * ranks. Positions for RoPE are deal(jnp.arange(s), ranks, axis=0).

    Returns an array of x's shape and type.

    Raises InvalidError (a ValueError) for a length that is not a multiple of 2 * ranks, and offsets that do not fit x;
    TypeError if ranks is not a whole number.
    """
    x, parts = _dealable(x, ranks, axis if offsets is None else 0)
    if offsets is not None:
        places = packed_sequences(ranks, offsets, 0, x.shape[0] // ranks, True).in_order()
        return jnp.take(x, jnp.argsort(places), 0)
    chunks = jnp.split(x, parts, axis)
    return jnp.concatenate([chunks[i] for rank in range(ranks) for i in (rank, parts - 1 - rank)], axis)


def undeal(x: Any, ranks: int, *, axis: int = 1, offsets: Any = None) -> jax.Array:
    """The inverse of `deal`: x is its result; ranks, axis and offsets are those of that call.

    Returns an array of x's shape and type, in the order of whole sequences. Raises the same errors.
    """
    x, parts = _dealable(x, ranks, axis if offsets is None else 0)
    if offsets is not None:
        return jnp.take(x, packed_sequences(ranks, offsets, 0, x.shape[0] // ranks, True).in_order(), 0)
    chunks = jnp.split(x, parts, axis)
    return jnp.concatenate(chunks[::2] + chunks[::-2], axis)


def _dealable(x: Any, ranks: int, axis: int) -> tuple[jax.Array, int]:
    x, parts = as_jax("x", x), 2 * whole("ranks", ranks)
    if x.shape[axis] % parts:
        raise invalid(f"x has {x.shape[axis]} tokens; {ranks} devices need a multiple of {parts}: pad it")
    return x, parts
