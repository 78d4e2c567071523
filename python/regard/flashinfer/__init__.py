"""FlashInfer's attention on KV caches with its classes, functions and arguments, computed by Regard.

from regard.flashinfer import BatchDecodeWithPagedKVCacheWrapper, append_paged_kv_cache

regard.flashinfer.register()                           # or: whatever imports flashinfer gets Regard
import flashinfer
"""

from ..hosts import require

require("regard.flashinfer", "torch")

from . import cascade, decode, mla, page, prefill  # noqa: E402
from .cascade import *  # noqa: E402, F403
from .decode import *  # noqa: E402, F403
from .mla import *  # noqa: E402, F403
from .page import *  # noqa: E402, F403
from .prefill import *  # noqa: E402, F403
from .register import register, unregister  # noqa: E402

del require

__all__ = [*cascade.__all__, *decode.__all__, *mla.__all__, *page.__all__, *prefill.__all__, "register", "unregister"]
