"""Regard: fused multi-head attention, planned, found or compiled, run and checked.

    import numpy, regard
    q = numpy.random.randn(2, 1024, 16, 128).astype("float32")     # [b, s, h, d]
    o = regard.attention(q, q, q, causal=True)
    o, lse = regard.attention(q, q, q, causal=True, lse=True)
    grad_q, grad_k, grad_v = regard.attention_backward(o, q, q, q, o, lse, causal=True)

    print(regard.explain("fwd bf16 b=2 h=16 s=1024 d=128 mask=causal"))
    plan = regard.plan("fwd fp32 b=2 h=16 s=1024 d=128")
    plan.run(q=q, k=q, v=q, o=o)

Arrays of NumPy and of every library that supports DLPack or CUDA's array interface are passed without copies.
"""

from . import options
from ._core import VERSION as __version__
from ._core import Plan, Problem, TensorSpec
from .arrays import pack_bits
from .bundles import add_bundle
from .choosing import choose_by, use_tuning
from .errors import (
    InternalError,
    InvalidError,
    NoKernelError,
    NoMemoryError,
    RefusedError,
    RegardError,
)
from .functional import append, attention, attention_backward
from .merging import merge
from .planning import cache, check, explain, info, list, plan, rerun, words

__all__ = [
    "InternalError",
    "InvalidError",
    "NoKernelError",
    "NoMemoryError",
    "Plan",
    "Problem",
    "RefusedError",
    "RegardError",
    "TensorSpec",
    "__version__",
    "add_bundle",
    "append",
    "attention",
    "attention_backward",
    "cache",
    "check",
    "choose_by",
    "explain",
    "info",
    "list",
    "merge",
    "options",
    "pack_bits",
    "plan",
    "rerun",
    "use_tuning",
    "words",
]
