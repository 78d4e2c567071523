"""Attention for PyTorch: recorded by autograd, with every feature of `regard.attention`.

import torch, regard.torch
q = torch.randn(2, 1024, 16, 64, requires_grad=True)            # [b, s, h, d]
o = regard.torch.attention(q, q, q, causal=True, dropout=0.1)
o.sum().backward()
"""

from ..hosts import require

require("regard.torch", "torch")

from . import flops  # noqa: E402, F401
from .attention import attention, attention_varlen  # noqa: E402
from .caching import append  # noqa: E402
from .cascade import cascade_attention  # noqa: E402
from .flex import flex_attention, replace_flex  # noqa: E402
from .masks import mask  # noqa: E402
from .merging import merge  # noqa: E402
from .replacing import replace_sdpa  # noqa: E402
from .sdpa import sdpa  # noqa: E402
from .tracing import function  # noqa: E402

del require

__all__ = [
    "append",
    "attention",
    "attention_varlen",
    "cascade_attention",
    "flex_attention",
    "function",
    "mask",
    "merge",
    "replace_flex",
    "replace_sdpa",
    "sdpa",
]
