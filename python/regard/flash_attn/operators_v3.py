"""torch.ops.flash_attn_3: FlashAttention-3's extension, whose functions are PyTorch operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .raw_v3 import _flash_attn_backward, _flash_attn_forward
from .v3 import flash_attn_combine

_SCHEMAS = (
    "fwd(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new=None, Tensor(v_new!)? v_new=None, Tensor? q_v=None, "
    "Tensor(out!)? out=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? cu_seqlens_k_new=None, "
    "Tensor? seqused_q=None, Tensor? seqused_k=None, int? max_seqlen_q=None, int? max_seqlen_k=None, "
    "Tensor? page_table=None, Tensor? kv_batch_idx=None, Tensor? leftpad_k=None, Tensor? rotary_cos=None, "
    "Tensor? rotary_sin=None, Tensor? seqlens_rotary=None, Tensor? q_descale=None, Tensor? k_descale=None, "
    "Tensor? v_descale=None, float? softmax_scale=None, bool is_causal=False, int window_size_left=-1, "
    "int window_size_right=-1, int attention_chunk=0, float softcap=0.0, bool is_rotary_interleaved=False, "
    "Tensor? scheduler_metadata=None, int num_splits=0, bool? pack_gqa=None, int sm_margin=0) "
    "-> (Tensor(out!), Tensor, Tensor, Tensor)",
    "bwd(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor(dq!)? dq=None, "
    "Tensor(dk!)? dk=None, Tensor(dv!)? dv=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, "
    "Tensor? seqused_q=None, Tensor? seqused_k=None, int? max_seqlen_q=None, int? max_seqlen_k=None, "
    "float? softmax_scale=None, bool is_causal=False, int window_size_left=-1, int window_size_right=-1, "
    "float softcap=0.0, bool deterministic=False, int sm_margin=0) "
    "-> (Tensor(dq!), Tensor(dk!), Tensor(dv!), Tensor, Tensor, Tensor, Tensor, Tensor)",
    "fwd_combine(Tensor out_partial, Tensor lse_partial, Tensor(out!)? out=None, ScalarType? out_dtype=None) "
    "-> (Tensor(out!), Tensor)",
    "get_scheduler_metadata(int batch_size, int max_seqlen_q, int max_seqlen_k, int num_heads, int num_heads_k, "
    "int headdim, int headdim_v, ScalarType qkv_dtype, Tensor seqused_k, Tensor? cu_seqlens_q=None, "
    "Tensor? cu_seqlens_k=None, Tensor? cu_seqlens_k_new=None, Tensor? seqused_q=None, Tensor? leftpad_k=None, "
    "int? page_size=None, int max_seqlen_k_new=0, bool is_causal=False, int window_size_left=-1, "
    "int window_size_right=-1, int attention_chunk=0, bool has_softcap=False, int num_splits=0, "
    "bool? pack_gqa=None, int sm_margin=0) -> Tensor",
)


def _fwd(*arguments: Any) -> tuple[Tensor, ...]:
    """Arguments as `_flash_attn_forward` has them; PyTorch omits trailing ones that are at their defaults."""
    return _flash_attn_forward(*arguments)


def _bwd(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *others: Any) -> tuple[Tensor, ...]:
    """dq, dk and dv, and nothing in place of flash_attn's intermediate results."""
    gradients, sequences, scores = (others[:3] + (None,) * 3)[:3], others[3:9], others[9:]
    sequences += (None,) * (6 - len(sequences))
    results = _flash_attn_backward(dout, q, k, v, out, lse, *sequences, *gradients, *scores)
    return (*results, *(lse.new_empty(0) for _ in range(5)))


def _get_scheduler_metadata(*arguments: Any) -> Tensor:
    seqused_k: Tensor = arguments[8]
    return seqused_k.new_empty(0, dtype=torch.int32)


_IMPLEMENTATIONS: dict[str, Any] = {
    "fwd": _fwd,
    "bwd": _bwd,
    "fwd_combine": flash_attn_combine,
    "get_scheduler_metadata": _get_scheduler_metadata,
}

_schemas: torch.library.Library | None = None
_library: torch.library.Library | None = None


def refuse_others() -> None:
    """Raises ImportError if an extension that is already loaded has defined the operators."""
    if _schemas is None and hasattr(torch.ops.flash_attn_3, "fwd"):
        raise ImportError(
            "an extension has already defined the operators torch.ops.flash_attn_3: call "
            "regard.flash_attn.register() in a process that has not loaded it"
        )


def define() -> None:
    global _schemas, _library
    if _schemas is None:
        _schemas = torch.library.Library("flash_attn_3", "FRAGMENT")
        for schema in _SCHEMAS:
            _schemas.define(schema)
    if _library is None:
        _library = torch.library.Library("flash_attn_3", "IMPL")
        for name, implementation in _IMPLEMENTATIONS.items():
            for device in ("CPU", "CUDA"):
                _library.impl(name, implementation, device)


def undefine() -> None:
    """Keeps only the schemas: PyTorch would free them even if other code still holds one of the operators."""
    global _library
    if _library is not None:
        _library._destroy()
        _library = None
