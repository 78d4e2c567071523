#!/usr/bin/env python3
"""A training step offline: every kernel comes from the bundle in a wheel, none from a compiler.

regard build offline.toml && pip install offline_jax-build/*.whl && python offline.py
"""

import os

# Must come before Regard reads its settings: the bundle's target, no compiler, no kernels from the user's cache.
os.environ |= {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_JIT": "off", "REGARD_CACHE": "off"}

import jax
import numpy
import regard_bundle_offline_jax  # the package of the wheel

import regard.jax

# Makes this program refuse what the manifest does not declare. Merely installing the package restricts nothing.
regard.add_bundle(regard_bundle_offline_jax.bundle)


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    # [b, s, heads, d]: two query heads share a head of keys and values.
    q, weights = (jax.random.normal(key, (2, 64, 4, 96)) for key in keys[:2])
    k, v = (jax.random.normal(key, (2, 64, 2, 96)) for key in keys[2:])

    def regards(q, k, v):
        return (regard.jax.attention(q, k, v, causal=True) * weights).sum()

    def jaxs(q, k, v):
        return (jax.nn.dot_product_attention(q, k, v, is_causal=True) * weights).sum()

    ours, theirs = (jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(q, k, v) for loss in (regards, jaxs))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
        numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    print("loss and gradients are those of JAX's own attention")

    counters = regard.info()["counters"]
    print("kernels by tier:", {tier: counters[tier] for tier in ("built_in", "bundled", "cached", "compiled")})
    try:
        jax.block_until_ready(regard.jax.attention(q, k, v, softcap=30))
    except jax.errors.JaxRuntimeError as error:
        print("not in the wheel:", error)


if __name__ == "__main__":
    main()
