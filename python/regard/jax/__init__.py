"""Regard for JAX: attention as functions that can be compiled, differentiated, mapped and sharded.

    import jax, regard.jax
    o = jax.jit(regard.jax.attention, static_argnames="causal")(q, k, v, causal=True)      # [b, s, h, d]
    o = regard.jax.dot_product_attention(q, k, v, is_causal=True)                # jax.nn's signature
    grads = jax.grad(lambda q: regard.jax.attention(q, k, v, causal=True).sum())(q)

Programs call the kernels through XLA's foreign function interface. Results and scratch memory are program buffers.
"""

from ..hosts import require

require("regard.jax", "jax")

from .attend import attention  # noqa: E402
from .bits import pack_bits  # noqa: E402
from .caching import append  # noqa: E402
from .dot_product import dot_product_attention  # noqa: E402
from .flash import flash_attn_func, flash_attn_varlen  # noqa: E402
from .merging import merge  # noqa: E402
from .paged import paged_attention  # noqa: E402
from .parallel import (  # noqa: E402
    all_gather_attention,
    all_to_all_attention,
    deal,
    ring_attention,
    undeal,
)
from .targets import TARGET  # noqa: E402

del require

__all__ = [
    "TARGET",
    "all_gather_attention",
    "all_to_all_attention",
    "append",
    "attention",
    "deal",
    "dot_product_attention",
    "flash_attn_func",
    "flash_attn_varlen",
    "merge",
    "pack_bits",
    "paged_attention",
    "ring_attention",
    "undeal",
]
