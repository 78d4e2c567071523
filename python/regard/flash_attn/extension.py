"""The functions of flash_attn's extension module (flash_attn_2_cuda), in its order of arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import raw
from .kvcache import refuse_cache

Results = tuple[Tensor, ...]


def _refuse_generator(generator: Any) -> None:
    if generator is not None:
        raise RuntimeError(
            "the `generator` argument is no longer supported by flash_attn: pass None, and seed by torch.manual_seed"
        )


def _given(out: Tensor | None, results: Results) -> Results:
    return results if out is None else (out.copy_(results[0]), *results[1:])


def _made(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.empty_like(like) if gradient is None else gradient


def fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    alibi_slopes: Tensor | None,
    p_dropout: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    return_softmax: bool,
    generator: None = None,
) -> Results:
    """out, softmax_lse, S_dmask, rng_state."""
    _refuse_generator(generator)
    window = (window_size_left, window_size_right)
    forward = raw._flash_attn_forward
    results = forward(q, k, v, p_dropout, softmax_scale, is_causal, *window, softcap, alibi_slopes, return_softmax)
    return _given(out, results)


def varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_k: Tensor | None,
    leftpad_k: Tensor | None,
    block_table: Tensor | None,
    alibi_slopes: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    p_dropout: float,
    softmax_scale: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    return_softmax: bool,
    generator: None = None,
    num_splits: int = 0,
) -> Results:
    """The same for packed sequences."""
    _refuse_generator(generator)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    window = (window_size_left, window_size_right)
    cache: dict[str, Any] = {
        "block_table": block_table,
        "leftpad_k": leftpad_k,
        "seqused_k": seqused_k,
        "num_splits": num_splits,
    }
    forward = raw._flash_attn_varlen_forward
    results = forward(
        q,
        k,
        v,
        *sequences,
        p_dropout,
        softmax_scale,
        is_causal,
        *window,
        softcap,
        alibi_slopes,
        return_softmax,
        **cache,
    )
    return _given(out, results)


def bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    alibi_slopes: Tensor | None,
    p_dropout: float,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    deterministic: bool,
    generator: None = None,
    rng_state: Tensor | None = None,
) -> Results:
    """dq, dk, dv. The row sums that flash_attn adds to them stay within the kernels here."""
    _refuse_generator(generator)
    gradients = _made(dq, q), _made(dk, k), _made(dv, v)
    scores: Any = (p_dropout, softmax_scale, is_causal, window_size_left, window_size_right, softcap, alibi_slopes)
    backward: Any = raw._flash_attn_backward
    backward(dout, q, k, v, out, softmax_lse, *gradients, *scores, deterministic=deterministic, rng_state=rng_state)
    return gradients


def varlen_bwd(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    alibi_slopes: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    p_dropout: float,
    softmax_scale: float,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    deterministic: bool,
    generator: None = None,
    rng_state: Tensor | None = None,
) -> Results:
    """The same for packed sequences."""
    _refuse_generator(generator)
    gradients = _made(dq, q), _made(dk, k), _made(dv, v)
    sequences: Any = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    scores: Any = (p_dropout, softmax_scale, is_causal, window_size_left, window_size_right, softcap, alibi_slopes)
    backward: Any = raw._flash_attn_varlen_backward
    backward(
        dout,
        q,
        k,
        v,
        out,
        softmax_lse,
        *gradients,
        *sequences,
        *scores,
        deterministic=deterministic,
        rng_state=rng_state,
    )
    return gradients


def fwd_kvcache(*_: Any, **__: Any) -> Any:
    """Refused: the kernels of KV caches are not there yet."""
    refuse_cache("fwd_kvcache")
