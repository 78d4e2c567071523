#!/usr/bin/env python3
"""A training step offline: every kernel comes from the bundle in a wheel, none from a compiler.

regard build offline.toml && pip install offline_torch-build/*.whl && python offline.py
"""

import os

# Must come before Regard reads its settings: the bundle's target, no compiler, no kernels from the user's cache.
os.environ |= {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_JIT": "off", "REGARD_CACHE": "off"}

import regard_bundle_offline_torch  # the package of the wheel
import torch
from torch.nn import functional as F

import regard.torch

# Makes this program refuse what the manifest does not declare. Merely installing the package restricts nothing.
regard.add_bundle(regard_bundle_offline_torch.bundle)


def main() -> None:
    torch.manual_seed(0)
    # [b, s, heads, d]: two query heads share a head of keys and values.
    q = torch.randn(2, 64, 4, 96, requires_grad=True)
    k, v = (torch.randn(2, 64, 2, 96, requires_grad=True) for _ in range(2))
    weights = torch.randn(2, 64, 4, 96)

    regards = regard.torch.attention(q, k, v, causal=True)
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    torchs = F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True).transpose(1, 2)
    torch.testing.assert_close(regards, torchs)
    ours, theirs = (torch.autograd.grad((o * weights).sum(), (q, k, v)) for o in (regards, torchs))
    torch.testing.assert_close(ours, theirs)
    print("output and gradients are those of PyTorch's own attention")

    counters = regard.info()["counters"]
    print("kernels by tier:", {tier: counters[tier] for tier in ("built_in", "bundled", "cached", "compiled")})
    try:
        regard.torch.attention(q, k, v, softcap=30)
    except regard.RefusedError as error:
        print("not in the wheel:", error)


if __name__ == "__main__":
    main()
