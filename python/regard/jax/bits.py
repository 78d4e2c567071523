"""Boolean masks as visibility bits, also in traced programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..errors import invalid


def pack_bits(mask: Any) -> jax.Array:
    """The visibility bits (`bits=`) of a boolean mask [..., sq, sk], True where a query sees a key.

    Returns uint32 [..., sq, ceil(sk/32)]: bit j%32 of word j/32 is the key j.

    Raises InvalidError for another dtype: pass scores to be added as `bias`.
    """
    mask = jnp.asarray(mask)
    if mask.dtype != jnp.bool_:
        raise invalid(f"mask has dtype {mask.dtype}; pack_bits takes booleans, and scores to be added are a bias")
    if mask.ndim < 1:
        raise invalid("mask is a single boolean; pack_bits takes bool [..., sq, sk]")
    *leading, keys = mask.shape
    words = -(-keys // 32)
    padded = jnp.pad(mask, [(0, 0)] * len(leading) + [(0, 32 * words - keys)])
    packed = jnp.packbits(padded, axis=-1, bitorder="little").reshape(*leading, words, 4)
    return jax.lax.bitcast_convert_type(packed, jnp.uint32)
