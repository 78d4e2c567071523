"""flash_attn_func and flash_attn_varlen, with the signatures of FlashAttention's JAX front ends."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..errors import invalid
from ..words import dropout_words, quote
from .attend import attention
from .values import int32_array, number, switch


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1),
    bias: Any = None,
    alibi_slopes: Any = None,
    deterministic: bool = True,
    return_lse: bool = False,
    return_attn_probs: bool = False,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    *,
    softcap: float = 0.0,
    sink: Any = None,
    key: Any = None,
) -> Any:
    """Attention of [b, s, h, d] arrays; [b, h, s, d] would run as well, with a wrong result.

    causal is aligned to the bottom right; window_size is (left, right), -1 for unbounded, or (left, right, sink
    tokens). cu_seqlens_q and cu_seqlens_kv (int32 [b+1], cumulative, may be traced) say how many rows of each sequence
    count. dropout_p needs a key of jax.random, and kept weights are divided by 1 - dropout_p. alibi_slopes have no
    gradient.

    Returns o; (o, lse) with return_lse; with return_attn_probs a third result, the uint8 dropout mask [b, hq, sq, sk],
    1 where a weight was kept, or None without dropout. lse is float32 [b, hq, sq].

    Raises the same errors as `regard.jax.attention`.
    """
    options = _options(dropout_p, softmax_scale, causal, window_size, deterministic, softcap, key)
    options |= {"bias": bias, "alibi": alibi_slopes, "sink": sink}
    options |= {
        "lengths_q": _lengths("cu_seqlens_q", cu_seqlens_q),
        "lengths_k": _lengths("cu_seqlens_kv", cu_seqlens_kv),
    }
    return _results(q, k, v, options, return_lse, return_attn_probs)


def flash_attn_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int = 0,
    max_seqlen_k: int = 0,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, ...] = (-1, -1),
    deterministic: bool = False,
    return_lse: bool = False,
    *,
    bias: Any = None,
    alibi_slopes: Any = None,
    softcap: float = 0.0,
    sink: Any = None,
    key: Any = None,
    return_attn_probs: bool = False,
) -> Any:
    """Attention of packed sequences [tokens, h, d].

    cu_seqlens_q, cu_seqlens_k: int32 [b+1], cumulative, first 0; they may be traced if max_seqlen_q and max_seqlen_k
    (or bounds above them) are given. The other arguments and the results are those of `flash_attn_func`; lse is [hq,
    tokens], and the dropout mask [hq, tokens, max_seqlen_k].

    Raises the same errors as `regard.jax.attention`.
    """
    options = _options(dropout_p, softmax_scale, causal, window_size, deterministic, softcap, key)
    options |= {"offsets_q": cu_seqlens_q, "offsets_k": cu_seqlens_k}
    options["sq"] = number("max_seqlen_q", max_seqlen_q) or None
    options["sk"] = number("max_seqlen_k", max_seqlen_k) or None
    options |= {"bias": bias, "alibi": alibi_slopes, "sink": sink}
    return _results(q, k, v, options, return_lse, return_attn_probs)


def _options(
    dropout: Any, scale: Any, causal: Any, window: Any, deterministic: Any, softcap: Any, key: Any
) -> dict[str, Any]:
    options = {"scale": scale, "causal": causal, "softcap": softcap, "key": key}
    options |= {"dropout": dropout, **dropout_words(number("dropout_p", dropout) or 0.0)}
    if switch("deterministic", deterministic):
        options["deterministic"] = True
    if not isinstance(window, (tuple, list)) or len(window) not in (2, 3):
        raise invalid(f"window_size is {quote(window)}; it must be (left, right) or (left, right, sink tokens)")
    if tuple(window[:2]) != (-1, -1) or any(window[2:]):
        options["window"] = tuple(window[:2])
        options["sink_tokens"] = window[2] if len(window) == 3 else 0
    return options


def _lengths(name: str, offsets: Any) -> jax.Array | None:
    return None if offsets is None else jnp.diff(int32_array(name, offsets))


def _results(q: Any, k: Any, v: Any, options: dict[str, Any], return_lse: bool, return_attn_probs: bool) -> Any:
    return_lse, return_attn_probs = switch("return_lse", return_lse), switch("return_attn_probs", return_attn_probs)
    drops = return_attn_probs and bool(options["dropout"])
    results = attention(q, k, v, lse=return_lse or return_attn_probs, dropout_mask=drops, **options)
    return (*results, None) if return_attn_probs and not drops else results
