"""dot_product_attention with the signature of jax.nn's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..errors import invalid
from ..words import quote, whole
from .attend import attention
from .bits import pack_bits
from .values import as_jax, int32_array, refuse_traced, switch

# As it is when this module is imported: programs may replace it with ours.
_of_jax: Any = jax.nn.dot_product_attention


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """`jax.nn.dot_product_attention`, computed by Regard.

    query: [b, sq, hq, d] or [sq, hq, d]; key, value: [b, sk, hk, d] or [sk, hk, d]; bias and the boolean mask:
    broadcast to [b, hq, sq, sk]. The bias is added in float32, whatever its type. Causal masks and windows are aligned
    to the top left, as in JAX. With return_residual the result is (o, lse), where lse is [b, sq, hq] in key's dtype and
    has no gradient. Arrays of [b, h, s, d] would run as well, with a wrong result.

    There are two differences from JAX: a row that sees no key gives 0 (in JAX, the mean of all values), and scale is a
    Python number, not a traced one. implementation is None or "regard"; "xla" and "cudnn" select JAX's own
    implementations.

    Raises the same errors as `regard.jax.attention`.
    """
    if implementation in ("xla", "cudnn"):
        return _of_jax(
            query,
            key,
            value,
            bias,
            mask,
            scale=scale,
            is_causal=is_causal,
            query_seq_lengths=query_seq_lengths,
            key_value_seq_lengths=key_value_seq_lengths,
            local_window_size=local_window_size,
            implementation=implementation,
            return_residual=return_residual,
        )
    if implementation not in (None, "regard"):
        raise invalid(f"implementation is {quote(implementation)}; it must be None, 'regard', 'xla' or 'cudnn'")
    is_causal, return_residual = switch("is_causal", is_causal), switch("return_residual", return_residual)
    query, key, value = as_jax("query", query), as_jax("key", key), as_jax("value", value)
    single = query.ndim == 3
    q, k, v = (_ranked(name, array) for name, array in (("query", query), ("key", key), ("value", value)))
    options: dict[str, Any] = {"scale": scale, "mask": _mask_word(is_causal, local_window_size)}
    options["lengths_q"] = _lengths("query_seq_lengths", query_seq_lengths, q.shape[1])
    options["lengths_k"] = _lengths("key_value_seq_lengths", key_value_seq_lengths, k.shape[1])
    if bias is not None:
        options["bias"] = _over_keys("bias", _addend(jnp.asarray(bias), q.dtype), q, k)
    if mask is not None:
        mask = as_jax("mask", mask)
        if mask.dtype != jnp.bool_:
            raise invalid(f"mask has dtype {mask.dtype}; it must be bool, and scores to be added are a bias")
        options["bits"] = pack_bits(_over_keys("mask", mask, q, k))
    results = attention(q, k, v, lse=return_residual, **options)
    o = results[0] if return_residual else results
    o = o[0] if single else o
    if not return_residual:
        return o
    lse = jax.lax.stop_gradient(jnp.swapaxes(results[1], 1, 2).astype(key.dtype))
    return o, lse[0] if single else lse


def _ranked(name: str, array: jax.Array) -> jax.Array:
    if not 3 <= array.ndim <= 4:
        raise invalid(f"{name} has shape {list(array.shape)}; it must have 4 dimensions, or 3 without the batch")
    return array[None] if array.ndim == 3 else array


def _addend(bias: jax.Array, of_query: Any) -> jax.Array:
    """A bias in the type in which it is added to float32 scores: its own if that is the query's, otherwise float32."""
    if bias.dtype == of_query:
        return bias
    if jnp.promote_types(bias.dtype, jnp.float32) != jnp.float32:
        raise invalid(f"bias has dtype {bias.dtype}, and scores are float32: give it as float32")
    return bias.astype(jnp.float32)


def _over_keys(name: str, array: jax.Array, q: jax.Array, k: jax.Array) -> jax.Array:
    """Four dimensions, with a column for each key; the other sizes may be 1."""
    scores = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    sizes = (1,) * (4 - array.ndim) + array.shape
    if len(sizes) != 4 or any(size not in (1, expected) for size, expected in zip(sizes, scores, strict=True)):
        raise invalid(f"{name} has shape {list(array.shape)}; it must broadcast to {list(scores)}")
    return jnp.broadcast_to(array, (*sizes[:3], k.shape[1]))


def _lengths(name: str, lengths: Any, sequence: int) -> jax.Array | None:
    """As in JAX, a length past the end means the whole sequence, and one below 0 an empty one."""
    return None if lengths is None else jnp.clip(int32_array(name, lengths), 0, sequence)


def _mask_word(causal: bool, window: Any) -> str | None:
    if window is None:
        return "causal_top_left" if causal else None
    refuse_traced("local_window_size", window)
    try:
        left, right = window if hasattr(window, "__iter__") else (window, window)
    except (TypeError, ValueError):
        raise invalid(f"local_window_size is {quote(window)}; it must be a number or a pair (left, right)") from None
    for side in (left, right):
        refuse_traced("local_window_size", side)
    left, right = whole("local_window_size's left side", left), whole("local_window_size's right side", right)
    if left < 0 or right < 0:
        raise invalid(f"local_window_size is {quote(window)}; its sides must be 0 or more")
    return f"window:{left},{0 if causal else right},top_left"
