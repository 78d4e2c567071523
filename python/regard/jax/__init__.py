"""Regard for JAX: attention as functions that can be compiled, differentiated, mapped and sharded.

    import jax, regard.jax
    o = jax.jit(regard.jax.attention, static_argnames="causal")(q, k, v, causal=True)      # [b, s, h, d]
    o = regard.jax.dot_product_attention(q, k, v, is_causal=True)                # jax.nn's signature
    grads = jax.grad(lambda q: regard.jax.attention(q, k, v, causal=True).sum())(q)

Programs call the kernels by XLA's foreign function interface. Results and scratch memory are buffers of the program.
"""

from . import version as _version  # first: what comes next needs a JAX that has it  # noqa: I001
from .attend import attention
from .bits import pack_bits
from .dot_product import dot_product_attention
from .flash import flash_attn_func, flash_attn_varlen
from .targets import TARGET

__all__ = ["TARGET", "attention", "dot_product_attention", "flash_attn_func", "flash_attn_varlen", "pack_bits"]

del _version
