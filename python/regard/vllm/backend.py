"""What the backend can do, in vLLM's own words."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionBackend, AttentionType
from vllm.v1.kv_cache_interface import KVCacheLayout

from .builder import RegardBuilder
from .caches import EIGHT_BITS
from .impl import RegardImpl
from .register import NAME

_SAME_TYPE = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class RegardBackend(AttentionBackend):
    """Softmax attention over paged keys, without latent attention (MLA); masks are causal or sliding windows."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", *_SAME_TYPE, *EIGHT_BITS]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        return NAME

    @staticmethod
    def get_impl_cls() -> type[RegardImpl]:
        return RegardImpl

    @staticmethod
    def get_builder_cls() -> type[RegardBuilder]:
        return RegardBuilder

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...] | None:
        return (KVCacheLayout.LBHNC,) if current_platform.is_cpu() else None

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return 1 <= head_size <= 512

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_per_head_quant_scales(cls) -> bool:
        return True

    @classmethod
    def supports_kv_connector(cls) -> bool:
        return not current_platform.is_cpu()  # there vLLM packs blocks in its own backend's order

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in tuple(AttentionType)

    @classmethod
    def supports_combination(
        cls, head_size: int, dtype: torch.dtype, kv_cache_dtype: str | None, *args: Any, **more: Any
    ) -> str | None:
        if _SAME_TYPE.get(kv_cache_dtype or "auto", dtype) != dtype:
            return f"a cache of {kv_cache_dtype} is not supported with queries of {dtype}: use their type or fp8"
        return None
