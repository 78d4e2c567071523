"""flash_attn's functions, by Regard: the same names, signatures, defaults and results, on CPUs and GPUs.

from regard.flash_attn import flash_attn_func          # instead of: from flash_attn import flash_attn_func

regard.flash_attn.register()                           # or: whatever imports flash_attn gets Regard
from flash_attn import flash_attn_func
"""

from ..hosts import require

require("regard.flash_attn", "torch")

from .flash_attn_interface import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)
from .register import register, unregister  # noqa: E402

del require

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "register",
    "unregister",
]
