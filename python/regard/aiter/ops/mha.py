"""The functions of `aiter.ops.mha`: attention of whole and packed sequences, and its separate passes."""

from ...torch.applied import applied
from ..by_parts import (  # noqa: F401  imported from here by pipelines
    _flash_attn_backward,
    _flash_attn_forward,
    _flash_attn_varlen_backward,
    _flash_attn_varlen_forward,
)
from ..dense import flash_attn_fp8_pertensor_func, flash_attn_func
from ..fmha import (
    fmha_fwd_bf16_opus_fwd,
    fmha_fwd_bf16_opus_varlen_fwd,
    fmha_fwd_mxfp8_asm,
    fmha_fwd_with_sink_asm,
    fmha_fwd_with_sink_varlen_asm,
    mha_fwd_native_splitkv,
)
from ..paged import mha_batch_prefill, mha_batch_prefill_func
from ..raw import fmha_v3_fwd, fmha_v3_varlen_fwd, mha_fwd, mha_varlen_fwd
from ..raw_backward import fmha_v3_bwd, fmha_v3_varlen_bwd, mha_bwd, mha_varlen_bwd
from ..varlen import flash_attn_varlen_fp8_pertensor_func, flash_attn_varlen_func

FlashAttnFunc = applied(
    "FlashAttnFunc",
    flash_attn_func,
    "q k v dropout_p softmax_scale causal window_size bias alibi_slopes deterministic return_lse return_attn_probs "
    "is_grad_enabled is_v3_atomic_fp32 how_v3_bf16_cvt cu_seqlens_q cu_seqlens_kv sink_ptr num_splits",
    ignored="is_v3_atomic_fp32",
)
FlashAttnVarlenFunc = applied(
    "FlashAttnVarlenFunc",
    flash_attn_varlen_func,
    "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k min_seqlen_q dropout_p softmax_scale logits_soft_cap "
    "causal window_size bias alibi_slopes deterministic return_lse return_attn_probs block_table out is_grad_enabled "
    "cu_seqlens_q_padded cu_seqlens_k_padded is_v3_atomic_fp32 how_v3_bf16_cvt sink_ptr",
    ignored="is_v3_atomic_fp32",
)

__all__ = [
    "FlashAttnFunc",
    "FlashAttnVarlenFunc",
    "flash_attn_fp8_pertensor_func",
    "flash_attn_func",
    "flash_attn_varlen_fp8_pertensor_func",
    "flash_attn_varlen_func",
    "fmha_fwd_bf16_opus_fwd",
    "fmha_fwd_bf16_opus_varlen_fwd",
    "fmha_fwd_mxfp8_asm",
    "fmha_fwd_with_sink_asm",
    "fmha_fwd_with_sink_varlen_asm",
    "fmha_v3_bwd",
    "fmha_v3_fwd",
    "fmha_v3_varlen_bwd",
    "fmha_v3_varlen_fwd",
    "mha_batch_prefill",
    "mha_batch_prefill_func",
    "mha_bwd",
    "mha_fwd",
    "mha_fwd_native_splitkv",
    "mha_varlen_bwd",
    "mha_varlen_fwd",
]
