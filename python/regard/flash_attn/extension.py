"""The functions of flash_attn's extension module (flash_attn_2_cuda), in its order of arguments."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..torch.tensors import zero
from . import raw
from .cached import Cache, Names, New, attend_cached
from .probabilities import refuse_probabilities
from .words import score_words, varlen_words

Results = tuple[Tensor, ...]
_NAMES = Names(lengths="seqlens_k")


def _refuse_generator(generator: Any) -> None:
    if generator is not None:
        raise RuntimeError(
            "the `generator` argument is no longer supported by flash_attn: pass None, and seed by torch.manual_seed"
        )


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
    words = score_words(softmax_scale, is_causal, window, softcap, alibi_slopes)
    return raw.forward(q, k, v, words, p_dropout, return_softmax, out)


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
    window = (window_size_left, window_size_right)
    words = score_words(softmax_scale, is_causal, window, softcap, alibi_slopes)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    words |= raw.sequence_words(k, sequences, seqused_k, num_splits, block_table, leftpad_k)
    if block_table is not None:
        refuse_probabilities(p_dropout, return_softmax)
    if zero_tensors:
        zero(out)
    return raw.forward(q, k, v, words, p_dropout, return_softmax, out)


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
    words = score_words(
        softmax_scale, is_causal, (window_size_left, window_size_right), softcap, alibi_slopes, deterministic
    )
    return raw.backward(dout, (q, k, v, out, softmax_lse), (dq, dk, dv), words, p_dropout, rng_state)


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
    words = score_words(
        softmax_scale, is_causal, (window_size_left, window_size_right), softcap, alibi_slopes, deterministic
    )
    words |= varlen_words(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    if zero_tensors:
        zero(dq, dk, dv)
    return raw.backward(dout, (q, k, v, out, softmax_lse), (dq, dk, dv), words, p_dropout, rng_state)


def fwd_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    seqlens_k: Tensor | None,
    rotary_cos: Tensor | None,
    rotary_sin: Tensor | None,
    cache_batch_idx: Tensor | None,
    leftpad_k: Tensor | None,
    block_table: Tensor | None,
    alibi_slopes: Tensor | None,
    out: Tensor | None,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    is_rotary_interleaved: bool,
    num_splits: int,
) -> Results:
    """out, softmax_lse."""
    cache = Cache(k_cache, v_cache, seqlens_k, cache_batch_idx, leftpad_k, block_table, _NAMES)
    new = New(k, v, rotary_cos, rotary_sin, is_rotary_interleaved)
    words = score_words(softmax_scale, is_causal, (window_size_left, window_size_right), softcap, alibi_slopes)
    out, lse = attend_cached(q, cache, new, words, True, out)
    assert lse is not None
    return out, lse
