"""Multi-head attention with its projections (flash_attn.modules.mha): the parameters are the same, so that a
state_dict of flash_attn loads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...errors import RefusedError, invalid
from ..flash_attn_interface import (  # noqa: F401  imported from here by programs
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)
from ..layers.rotary import RotaryEmbedding
from .inner import CrossAttention, FlashCrossAttention, FlashSelfAttention, SelfAttention, refuse_half_of


def get_alibi_slopes(nheads: int) -> list[float]:
    """The slope of each head: 2 ** (-8 i / n) for n heads, a power of two. Heads beyond a power of two get every second
    slope of the next power."""
    power = 1 << (nheads.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2.0 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
    return slopes + between[: nheads - power]


def _update_kv_cache(kv: Tensor, inference_params: Any, layer_idx: int) -> Tensor:
    """Writes kv [b, s, 2, hk, d] into the layer's cache, which is made at the first call, at the position given by
    inference_params. Returns the filled part of the cache."""
    caches = inference_params.key_value_memory_dict
    if layer_idx not in caches:
        size = (inference_params.max_batch_size, inference_params.max_seqlen, *kv.shape[2:])
        caches[layer_idx] = kv.new_empty(size)
    cache: Tensor = caches[layer_idx]
    first, offset = inference_params.batch_size_offset, inference_params.seqlen_offset
    last, end = first + kv.shape[0], offset + kv.shape[1]
    if last > cache.shape[0] or end > cache.shape[1]:
        raise invalid(f"the cache has {list(cache.shape[:2])} sequences and tokens, and {[last, end]} are needed")
    cache[first:last, offset:end] = kv
    return cache[first:last, :end]


class MHA(torch.nn.Module):
    """Self-attention, or cross-attention with cross_attn=True, of x [b, s, embed_dim].

    num_heads_kv: heads of K and V, by default as many as of Q. rotary_emb_dim: how many dimensions of a head rotary
    embeddings rotate, 0 for none. use_flash_attn: the inner attention takes packed sequences, windows and ALiBi instead
    of key_padding_mask; both are Regard's. return_residual: x is returned as well. fused_bias_fc is ignored.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_heads_kv: int | None = None,
        cross_attn: bool = False,
        qkv_proj_bias: bool = True,
        out_proj_bias: bool = True,
        dropout: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
        layer_idx: int | None = None,
        dwconv: bool = False,
        rotary_emb_dim: int = 0,
        rotary_emb_base: float = 10000.0,
        rotary_emb_scale_base: float | None = None,
        rotary_emb_interleaved: bool = False,
        use_alibi: bool = False,
        window_size: tuple[int, int] = (-1, -1),
        fused_bias_fc: bool = False,
        use_flash_attn: bool = False,
        return_residual: bool = False,
        checkpointing: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        num_heads_kv = num_heads if num_heads_kv is None else num_heads_kv
        if dwconv:
            raise RefusedError(
                "dwconv convolves Q, K and V, which is not supported: leave it out, and convolve x beforehand"
            )
        if embed_dim % num_heads or num_heads % num_heads_kv:
            raise invalid(
                f"embed_dim={embed_dim}, num_heads={num_heads}, num_heads_kv={num_heads_kv}: each must be a "
                "multiple of the next"
            )
        if not use_flash_attn and (use_alibi or tuple(window_size) != (-1, -1)):
            raise invalid("use_alibi and window_size need use_flash_attn=True")
        if cross_attn and rotary_emb_dim > 0:
            raise invalid("rotary_emb_dim does not go with cross_attn=True, whose tokens have no common positions")
        self.embed_dim, self.num_heads, self.num_heads_kv = embed_dim, num_heads, num_heads_kv
        self.head_dim = embed_dim // num_heads
        self.cross_attn, self.causal, self.layer_idx = cross_attn, causal, layer_idx
        self.rotary_emb_dim, self.use_flash_attn = rotary_emb_dim, use_flash_attn
        self.return_residual, self.checkpointing = return_residual, checkpointing
        self.dwconv = False
        if rotary_emb_dim > 0:
            self.rotary_emb = RotaryEmbedding(
                rotary_emb_dim,
                base=rotary_emb_base,
                scale_base=rotary_emb_scale_base,
                interleaved=rotary_emb_interleaved,
                device=device,
            )
        of_kv = 2 * self.head_dim * num_heads_kv
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if cross_attn:
            self.Wq = torch.nn.Linear(embed_dim, embed_dim, bias=qkv_proj_bias, **made)
            self.Wkv = torch.nn.Linear(embed_dim, of_kv, bias=qkv_proj_bias, **made)
        else:
            self.Wqkv = torch.nn.Linear(embed_dim, embed_dim + of_kv, bias=qkv_proj_bias, **made)
        scores: dict[str, Any] = {"causal": causal, "softmax_scale": softmax_scale, "attention_dropout": dropout}
        if use_flash_attn:
            slopes = torch.tensor(get_alibi_slopes(num_heads), device=device) if use_alibi else None
            scores |= {"window_size": window_size, "alibi_slopes": slopes}
        self.inner_attn = (FlashSelfAttention if use_flash_attn else SelfAttention)(**scores)
        self.inner_cross_attn = (FlashCrossAttention if use_flash_attn else CrossAttention)(**scores)
        self.out_proj = torch.nn.Linear(embed_dim, embed_dim, bias=out_proj_bias, **made)

    def allocate_inference_cache(self, batch_size: int, max_seqlen: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory for keys and values, [batch_size, max_seqlen, 2, hk, d]."""
        size = (batch_size, max_seqlen, 2, self.num_heads_kv, self.head_dim)
        return self.out_proj.weight.new_empty(size, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        x_kv: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
        mixer_subset: Any = None,
        inference_params: Any = None,
        **kwargs: Any,
    ) -> Any:
        """x: [b, s, embed_dim], or [tokens, embed_dim] with cu_seqlens and max_seqlen (use_flash_attn=True).

        x_kv: the input of keys and values, by default x; mixer_subset: which tokens of x are queries; both for
        cross-attention. key_padding_mask: boolean [b, s], True for visible keys (use_flash_attn=False).
        inference_params: where K and V are kept from call to call. kwargs are passed to the inner attention.
        """
        self._refuse(x_kv, key_padding_mask, cu_seqlens, max_seqlen, mixer_subset, inference_params)
        if self.use_flash_attn:
            kwargs |= {"cu_seqlens": cu_seqlens, "max_seqlen": max_seqlen}
        else:
            kwargs |= {"key_padding_mask": key_padding_mask}
        parts = self._projected(x, x_kv, mixer_subset)
        offset, longest = (0, None) if inference_params is None else _places(inference_params)
        if self.rotary_emb_dim > 0:
            rotated = self.rotary_emb(*parts, seqlen_offset=offset, max_seqlen=longest)
            parts = rotated if isinstance(rotated, tuple) else (rotated,)
        if inference_params is not None:
            q, kv = parts if len(parts) == 2 else (parts[0][:, :, 0], parts[0][:, :, 1:])
            o = self.inner_cross_attn(q, _update_kv_cache(kv, inference_params, self._layer()), **kwargs)
        elif self.checkpointing:
            o = checkpoint(self._inner, *parts, use_reentrant=False, **kwargs)
        else:
            o = self._inner(*parts, **kwargs)
        out = self.out_proj(o.flatten(-2))
        return (out, x) if self.return_residual else out

    def _projected(self, x: Tensor, x_kv: Tensor | None, mixer_subset: Any) -> tuple[Tensor, ...]:
        """qkv [..., 3, h, d] or, if keys are not shaped like queries, q [..., hq, d] and kv [..., 2, hk, d]."""
        if self.cross_attn:
            q = self.Wq(x if mixer_subset is None else x[:, mixer_subset])
            kv = self.Wkv(x if x_kv is None else x_kv)
        elif self.num_heads_kv == self.num_heads:
            return (self.Wqkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)),)
        else:
            q, kv = self.Wqkv(x).tensor_split([self.embed_dim], dim=-1)
        return q.unflatten(-1, (-1, self.head_dim)), kv.unflatten(-1, (2, -1, self.head_dim))

    def _inner(self, *parts: Tensor, **kwargs: Any) -> Tensor:
        if len(parts) == 1:
            o: Tensor = self.inner_attn(*parts, **kwargs)
            return o
        if self.use_flash_attn and not self.cross_attn:
            kwargs = {"cu_seqlens_k": kwargs["cu_seqlens"], "max_seqlen_k": kwargs["max_seqlen"], **kwargs}
        o = self.inner_cross_attn(*parts, **kwargs)
        return o

    def _layer(self) -> int:
        if self.layer_idx is None:
            raise invalid("inference_params needs layer_idx, the layer's number in the cache, when the module is made")
        return self.layer_idx

    def _refuse(
        self, x_kv: Any, key_padding_mask: Any, cu_seqlens: Any, max_seqlen: Any, mixer_subset: Any, inference: Any
    ) -> None:
        refuse_half_of(cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        if cu_seqlens is not None and (not self.use_flash_attn or self.rotary_emb_dim > 0):
            raise invalid("cu_seqlens needs use_flash_attn=True and no rotary embedding")
        if key_padding_mask is not None and self.use_flash_attn:
            raise invalid("key_padding_mask needs use_flash_attn=False: pack the sequences, and give cu_seqlens")
        if not self.cross_attn and (x_kv is not None or mixer_subset is not None):
            raise invalid("x_kv and mixer_subset need cross_attn=True")
        if inference is not None and (key_padding_mask is not None or cu_seqlens is not None):
            raise invalid("inference_params goes with neither key_padding_mask nor cu_seqlens")


def _places(inference_params: Any) -> tuple[int, int]:
    """The position of the first token, and how many positions there can be."""
    if inference_params.lengths_per_sample is not None:
        raise RefusedError(
            "lengths_per_sample says where each sequence ends, and this cache has one end for all: use sequences of "
            "equal length, with seqlen_offset, or flash_attn_with_kvcache"
        )
    return inference_params.seqlen_offset, inference_params.max_seqlen


class ParallelMHA(torch.nn.Module):
    """Refused: its projections are linear layers that are split over processes."""

    def __init__(self, embed_dim: int, num_heads: int, process_group: Any, *arguments: Any, **options: Any) -> None:
        raise RefusedError(
            "ParallelMHA splits its projections over processes with linear layers that are not provided: use MHA with "
            "torch.distributed.tensor.parallel"
        )
