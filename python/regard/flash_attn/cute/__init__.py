"""FlashAttention-4's functions (flash_attn.cute)."""

from .interface import flash_attn_func, flash_attn_varlen_func

__all__ = ["flash_attn_func", "flash_attn_varlen_func"]
