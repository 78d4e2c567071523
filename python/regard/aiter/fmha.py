"""AITER's functions for single kernels (fmha_fwd_...), here for any head dimension, type and machine."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor

from ..errors import RefusedError
from .raw import mha_fwd, mha_varlen_fwd


def fmha_fwd_bf16_opus_fwd(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float, causal: bool, out: Tensor | None = None
) -> Tensor:
    """out from [b, s, h, d], without a gradient."""
    return mha_fwd(q, k, v, 0.0, softmax_scale, causal, -1, -1, 0, False, False, out=out)[0]


def fmha_fwd_bf16_opus_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float,
    causal: bool,
    seqstart_q: Tensor,
    seqstart_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    out: Tensor | None = None,
    seqstart_q_pad: Tensor | None = None,
    seqstart_k_pad: Tensor | None = None,
) -> Tensor:
    """out from [tokens, h, d]. seqstart_q, seqstart_k: int32 [b+1], cumulative lengths; with padding between sequences,
    seqstart_q_pad and seqstart_k_pad say where the sequences begin."""
    sequences = (seqstart_q, seqstart_k, max_seqlen_q, max_seqlen_k, 0)
    scores = (0.0, softmax_scale, 0.0, False, causal, -1, -1, 0)
    given: Any = (q, k, v, *sequences, *scores, False, False, out)
    padded: Any = {"cu_seqlens_q_padded": seqstart_q_pad, "cu_seqlens_k_padded": seqstart_k_pad}
    return mha_varlen_fwd(*given, **padded)[0]


def fmha_fwd_with_sink_asm(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float,
    is_causal: bool,
    return_lse: bool,
    sink: Tensor | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """out and lse [b, hq, sq] from [b, s, h, d]; lse is empty without return_lse. sink: fp32 [hq]."""
    o, lse, _, _ = mha_fwd(q, k, v, 0.0, softmax_scale, is_causal, -1, -1, 0, return_lse, False, out=out, sink_ptr=sink)
    return o, lse


def fmha_fwd_with_sink_varlen_asm(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    softmax_scale: float,
    is_causal: bool,
    return_lse: bool,
    sink: Tensor | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """out and lse [tokens, hq, 1] from [tokens, h, d]; lse is empty without return_lse. sink: fp32 [hq]."""
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, k.shape[0], 0)  # no sequence is longer than all together
    scores = (0.0, softmax_scale, 0.0, False, is_causal, -1, -1, 0)
    given: Any = (q, k, v, *sequences, *scores, return_lse, False, out)
    named: Any = {"sink_ptr": sink}
    o, lse, _, _ = mha_varlen_fwd(*given, **named)
    return o, lse.transpose(0, 1)[..., None] if return_lse else lse


def fmha_fwd_mxfp8_asm(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_scale: Tensor,
    k_scale: Tensor,
    v_scale: Tensor,
    softmax_scale: float | None = None,
    is_causal: bool = False,
    return_lse: bool = False,
    out: Tensor | None = None,
) -> NoReturn:
    """Refused: there are no kernels for block scales."""
    raise RefusedError(
        "fmha_fwd_mxfp8_asm has one scale for each block of 32 numbers, for which there are no kernels: use "
        "flash_attn_fp8_pertensor_func, with one scale for each tensor"
    )


def mha_fwd_native_splitkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    softmax_scale: float,
    causal: bool,
    return_lse: bool,
    num_splits: int,
) -> tuple[Tensor, Tensor]:
    """out and lse [b, hq, sq] from [b, s, h, d]; the plan decides how keys are split."""
    return mha_fwd(q, k, v, 0.0, softmax_scale, causal, -1, -1, 0, return_lse, False, out=out)[:2]
