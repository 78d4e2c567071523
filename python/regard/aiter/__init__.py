"""The attention functions of AITER (`aiter.ops.mha`) with its signatures, computed by Regard.

from regard.aiter import flash_attn_func, flash_attn_varlen_func

regard.aiter.register()                                # or: whatever imports aiter gets Regard
from aiter import flash_attn_func
"""

from ..hosts import require

require("regard.aiter", "torch")

from . import mla  # noqa: E402
from .ops import mha  # noqa: E402
from .ops.mha import *  # noqa: E402, F403
from .register import register, unregister  # noqa: E402

del require

__all__ = [*mha.__all__, "mla", "register", "unregister"]
