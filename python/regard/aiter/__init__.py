"""The attention functions of AITER (`aiter.ops.mha`) with its signatures, computed by Regard.

from regard.aiter import flash_attn_func, flash_attn_varlen_func
"""

from . import mla
from .dense import flash_attn_fp8_pertensor_func, flash_attn_func
from .paged import mha_batch_prefill_func
from .varlen import flash_attn_varlen_fp8_pertensor_func, flash_attn_varlen_func

__all__ = [
    "flash_attn_fp8_pertensor_func",
    "flash_attn_func",
    "flash_attn_varlen_fp8_pertensor_func",
    "flash_attn_varlen_func",
    "mha_batch_prefill_func",
    "mla",
]
