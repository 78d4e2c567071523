"""FlashMLA's attention of packed sequences whose keys are not absorbed, such as 192 columns of K and 128 of V."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..errors import invalid
from ..flash_attn.words import is_on, varlen_words
from ..torch import attention
from ..torch.sdpa import with_contiguous_rows
from ..torch.tensors import refuse_without_strides
from ..words import count, dropout_words, number


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_qo: Tensor,
    cu_seqlens_kv: Tensor,
    max_seqlen_qo: int,
    max_seqlen_kv: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
    is_varlen: bool = True,
) -> tuple[Tensor, Tensor]:
    """Attention of packed sequences, q [tokens, hq, d], k [tokens, hk, d] and v [tokens, hk, dv], with gradients.

    cu_seqlens_qo, cu_seqlens_kv: int32 [b+1], cumulative, first 0; max_seqlen_qo, max_seqlen_kv: the longest sequences,
    or bounds. softmax_scale: 1/sqrt(d) by default. causal is aligned to the last query and key. is_varlen=False says
    that all lengths are equal, which changes nothing.

    Returns out, [tokens, hq, dv], and the natural log-sum-exp, float32 [tokens, hq].
    """
    refuse_without_strides(q=q, k=k, v=v, cu_seqlens_qo=cu_seqlens_qo, cu_seqlens_kv=cu_seqlens_kv)
    is_on("is_varlen", is_varlen)
    options: dict[str, Any] = varlen_words(
        cu_seqlens_qo,
        cu_seqlens_kv,
        count("max_seqlen_qo", max_seqlen_qo, 0),
        count("max_seqlen_kv", max_seqlen_kv, 0),
    )
    dropout_p = number("dropout_p", dropout_p)
    if not 0 <= dropout_p < 1:
        raise invalid(f"dropout_p is {dropout_p}; it must be at least 0 and below 1")
    options |= dropout_words(dropout_p)
    if softmax_scale is not None:
        options["scale"] = number("softmax_scale", softmax_scale)
    for name, value in (("causal", causal), ("deterministic", deterministic)):
        if is_on(name, value):
            options[name] = True
    out, lse = attention(*map(with_contiguous_rows, (q, k, v)), lse=True, **options)
    return out, lse.T


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    head_dim_qk: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
    is_varlen: bool = True,
) -> tuple[Tensor, Tensor]:
    """`flash_attn_varlen_func` of Q, K and V in the columns of one tensor, of which Q and K have head_dim_qk each."""
    q, k, v = _columns("qkv", qkv, (head_dim_qk, head_dim_qk))
    lengths = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(q, k, v, *lengths, dropout_p, softmax_scale, causal, deterministic, is_varlen)


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_qo: Tensor,
    cu_seqlens_kv: Tensor,
    max_seqlen_qo: int,
    max_seqlen_kv: int,
    head_dim_qk: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
    is_varlen: bool = True,
) -> tuple[Tensor, Tensor]:
    """`flash_attn_varlen_func` of K and V in the columns of one tensor, of which K has head_dim_qk."""
    k, v = _columns("kv", kv, (head_dim_qk,))
    lengths = cu_seqlens_qo, cu_seqlens_kv, max_seqlen_qo, max_seqlen_kv
    return flash_attn_varlen_func(q, k, v, *lengths, dropout_p, softmax_scale, causal, deterministic, is_varlen)


def _columns(name: str, packed: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Parts with as many columns as `sizes` says, and V with the others."""
    refuse_without_strides(**{name: packed})
    sizes = tuple([count("head_dim_qk", size) for size in sizes])
    if packed.dim() != 3 or packed.shape[2] <= sum(sizes):
        raise invalid(
            f"{name} has shape {list(packed.shape)} and head_dim_qk is {sizes[0]}; it must be [tokens, heads, columns] "
            f"with the columns of V after the first {sum(sizes)}"
        )
    parts: tuple[Tensor, ...] = packed.split([*sizes, packed.shape[2] - sum(sizes)], dim=2)
    return parts
