"""One sequence, without pages and without a plan."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch.tensors import refuse_without_strides
from .attend import Memory, Planned, Result, Scales, attend, scaled
from .masks import bits_of, flat_mask
from .scores import score_options
from .words import heads_first, refuse, refuse_other_backends, type_of, word_of


def single_decode_with_kv_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_tensor_cores: bool = False,
    q_scale: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    sm_scale: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    return_lse: bool = False,
) -> Result:
    """Attention of one query, q [hq, d], to k and v, [s, hk, d] or with kv_layout="HND" [hk, s, d].

    Returns out [hq, dv], or (out, lse [hq] in base 2).
    """
    refuse_without_strides(q=q, k=k, v=v)
    is_on("use_tensor_cores", use_tensor_cores)
    if q.dim() != 2 or k.dim() != 3 or v.dim() != 3:
        raise invalid(
            f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}; they must be [heads, d] and, each, "
            "[s, heads, d] (NHD) or [heads, s, d] (HND)"
        )
    if heads_first(kv_layout):
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    scores = score_options(
        q.shape[1],
        causal=False,
        one_query=True,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        sm_scale=sm_scale,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        heads=q.shape[0],
        device=q.device,
    )
    q_type = type_of("q", q.dtype)
    planned = Planned(q_type, type_of("k", k.dtype), q_type, tuple(q.shape), (), (), scores, word_of(q_type, q_type))
    options, times = scaled(planned, Scales(q_scale, k_scale, v_scale), k, None)
    memory = Memory(None, None, is_on("return_lse", return_lse))
    found = attend(q[None, None], k[None], v[None], options, planned.out, memory, times)
    return (found[0][0], found[1][0]) if memory.return_lse else found[0]


def single_prefill_with_kv_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor | None = None,
    scale_k: Tensor | None = None,
    scale_v: Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: Tensor | None = None,
    packed_custom_mask: Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,
    kv_cache_sf: tuple[Tensor, Tensor] | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Result:
    """Attention of one sequence: q [sq, hq, d]; k and v [sk, hk, d], or with kv_layout="HND" [hk, sk, d].

    custom_mask: bool [sq, sk]. Returns out, or (out, lse [sq, hq] in base 2).
    """
    refuse(scale_q=scale_q, scale_k=scale_k, scale_v=scale_v, kv_cache_sf=kv_cache_sf)
    refuse_without_strides(q=q, k=k, v=v)
    refuse_other_backends(backend)
    is_on("use_fp16_qk_reduction", use_fp16_qk_reduction)
    if q.dim() != 3 or k.dim() != 3 or v.dim() != 3:
        raise invalid(
            f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}; they must be [s, heads, d], or K "
            "and V [heads, s, d] (HND)"
        )
    if heads_first(kv_layout):
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    masked = custom_mask is not None or packed_custom_mask is not None
    options = score_options(
        q.shape[2],
        causal=is_on("causal", causal) and not masked,
        pos_encoding_mode=pos_encoding_mode,
        window_left=window_left,
        logits_soft_cap=logits_soft_cap,
        sm_scale=sm_scale,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        heads=q.shape[1],
        device=q.device,
    )
    queries, keys = (numpy.array([n], dtype=numpy.int64) for n in (q.shape[0], k.shape[0]))
    mask = flat_mask(custom_mask, packed_custom_mask, queries * keys)
    if mask is not None:
        options["bits"] = bits_of(mask, queries, keys, q.shape[0], k.shape[0], q.device)
    q_type = type_of("q", q.dtype)
    o_type = q_type if o_dtype is None else type_of("o_dtype", o_dtype)
    planned = Planned(q_type, type_of("k", k.dtype), o_type, (0, 0), (), (), options, word_of(o_type, q_type))
    options, times = scaled(planned, Scales(None, k_scale, v_scale), k, None)
    memory = Memory(None, None, is_on("return_lse", return_lse))
    return attend(q[None], k[None], v[None], options, planned.out, memory, times)


@functools.wraps(single_prefill_with_kv_cache)
def single_prefill_with_kv_cache_return_lse(*arguments: Any, **named: Any) -> Result:
    return single_prefill_with_kv_cache(*arguments, **{**named, "return_lse": True})
