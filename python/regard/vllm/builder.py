"""The metadata of a batch: a captured graph keeps vLLM's own tensors, and bounds that do not depend on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder

from ..errors import RefusedError


@dataclass
class RegardMetadata:
    num_actual_tokens: int
    max_query_len: int
    query_start_loc: Tensor  # int32 [b + 1]
    seq_lens: Tensor  # int32 [b], new tokens too
    block_table: Tensor  # int32 [b, n]
    causal: bool


class RegardBuilder(AttentionMetadataBuilder):
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.ALWAYS
    supports_update_block_table = True
    supports_draft_decode_metadata_update = True

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> RegardMetadata:
        common = common_attn_metadata
        if isinstance(common.causal, Tensor):
            raise RefusedError(
                "a batch of which only some requests are causal is not supported: use vLLM's own backend"
            )
        if common.mm_req_doc_ranges:
            raise RefusedError("ranges of tokens that see each other both ways (mm_prefix) are not supported")
        if common.rswa_prefix_lens is not None:
            raise RefusedError("windows with a visible prefix (R-SWA) are not supported")
        return RegardMetadata(
            common.num_actual_tokens,
            common.max_query_len,
            common.query_start_loc,
            common.seq_lens,
            common.block_table_tensor,
            common.causal,
        )

    def update_block_table(self, metadata: RegardMetadata, blk_table: Tensor, slot_mapping: Tensor) -> RegardMetadata:
        return replace(metadata, block_table=blk_table)

    def update_draft_decode_metadata(self, metadata: RegardMetadata) -> None:
        """Nothing is computed from the batch, so there is nothing to compute again."""
