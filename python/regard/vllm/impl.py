"""The attention of one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm import envs
from vllm.config import get_current_vllm_config_or_none
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionImpl, AttentionType

from ..errors import RefusedError
from ..torch import append, attention
from .builder import RegardMetadata
from .caches import EIGHT_BITS, factors, keys_and_values

_WITHOUT_CACHE = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


class RegardImpl(AttentionImpl):
    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        # On a CPU vLLM asks none of the questions that RegardBackend answers.
        if not 1 <= head_size <= 512:
            raise RefusedError(f"heads of {head_size} are not supported, only sizes from 1 to 512")
        if kv_cache_dtype not in ("auto", "float16", "bfloat16", *EIGHT_BITS):
            raise RefusedError(
                f"kv_cache_dtype={kv_cache_dtype!r} is not supported: use 'auto' or one of {[*EIGHT_BITS]}"
            )
        if self.dcp_world_size > 1 or self.pcp_world_size > 1:
            raise RefusedError("context parallelism is not supported: use vLLM's own backend")
        config = get_current_vllm_config_or_none()
        self._on_cpu = current_platform.is_cpu()
        if self._on_cpu and config is not None and config.kv_transfer_config is not None:
            raise RefusedError("KV connectors are not supported on a CPU: use vLLM's own backend")
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.alibi_slopes = alibi_slopes
        self.sliding_window = sliding_window
        self.kv_cache_dtype = kv_cache_dtype
        self.logits_soft_cap = logits_soft_cap or 0.0
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks
        self._scores = {"scale": self.scale, "softcap": self.logits_soft_cap}
        if envs.VLLM_BATCH_INVARIANT:
            self._scores["batch_invariant"] = True
        self._tensors: dict[str, Tensor] | None = None  # from the first call on

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor,
        attn_metadata: RegardMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """query: [tokens, hq, d], of which metadata says how many count; the others' output is left as it is."""
        if output_scale is not None or output_block_scale is not None:
            raise RefusedError("outputs of 8 or 4 bits (output_scale) are not supported")
        tensors = self._tensors_on(query)
        if attn_metadata is None:  # vLLM warms up, before it captures graphs
            return output
        tokens = attn_metadata.num_actual_tokens
        starts, most = attn_metadata.query_start_loc, attn_metadata.max_query_len
        causal = attn_metadata.causal and self.attn_type == AttentionType.DECODER
        options: dict[str, Any] = {**self._scores, **tensors, **self._mask(causal)}
        if self.attn_type in _WITHOUT_CACHE:
            assert key is not None and value is not None
            k, v = _first(key, tokens), _first(value, tokens)
            options |= {"offsets_k": starts, "sk": most}
        else:
            k, v = keys_and_values(kv_cache, self.kv_cache_dtype, self.head_size, self._on_cpu)
            options |= {"page_table": attn_metadata.block_table, "lengths_k": attn_metadata.seq_lens}
            options |= factors(layer, self.kv_cache_dtype)
        q, out = _first(query, tokens), _first(output, tokens)
        attention(q, k, v, offsets_q=starts, sq=most, out=out, **options)
        return output

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Writes a key and a value for each slot; key and value can have more rows than there are slots."""
        if self.attn_type in _WITHOUT_CACHE:
            return
        k, v = keys_and_values(kv_cache, self.kv_cache_dtype, self.head_size, self._on_cpu)
        tokens = slot_mapping.shape[0]
        new = _first(key, tokens), _first(value, tokens)
        append(k, v, *new, slots=slot_mapping, **factors(layer, self.kv_cache_dtype))

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Weights that are loaded again reach captured graphs too."""
        if self._tensors and self.sinks is not None:
            self._tensors["sink"].copy_(self.sinks)

    def _mask(self, causal: bool) -> dict[str, Any]:
        if self.sliding_window is None:
            return {"causal": True} if causal else {}
        left = self.sliding_window - 1
        return {"window": (left, 0 if causal else left)}

    def _tensors_on(self, query: Tensor) -> dict[str, Tensor]:
        """The sinks and slopes in fp32, converted once."""
        if self._tensors is None:
            self._tensors = {}
            if self.sinks is not None:
                self._tensors["sink"] = self.sinks.detach().to(query.device, torch.float32).contiguous()
            if self.alibi_slopes is not None:
                self._tensors["alibi"] = torch.tensor(self.alibi_slopes, dtype=torch.float32, device=query.device)
        return self._tensors


def _first(x: Tensor, tokens: int) -> Tensor:
    return x if x.shape[0] == tokens else x[:tokens]
