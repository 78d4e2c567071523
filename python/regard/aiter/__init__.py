"""The attention functions of AITER (`aiter.ops.mha`) with its signatures, computed by Regard.

from regard.aiter import flash_attn_func, flash_attn_varlen_func
"""

from ..hosts import require

require("regard.aiter", "torch")

from . import mla  # noqa: E402
from .dense import flash_attn_fp8_pertensor_func, flash_attn_func  # noqa: E402
from .paged import mha_batch_prefill_func  # noqa: E402
from .varlen import flash_attn_varlen_fp8_pertensor_func, flash_attn_varlen_func  # noqa: E402

del require

__all__ = [
    "flash_attn_fp8_pertensor_func",
    "flash_attn_func",
    "flash_attn_varlen_fp8_pertensor_func",
    "flash_attn_varlen_func",
    "mha_batch_prefill_func",
    "mla",
]
