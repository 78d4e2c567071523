"""Masks by position, by a range of keys for each row, and by one bit for each pair."""

import torch
from gallery import device, integers, judge, tensor

import regard

s = 96
q, k, v = (tensor(1, s, 4, 64) for _ in range(3))
for mask in ("none", "causal", "causal_top_left", "window:16,0", "window:16,8", "window:8,8,top_left"):
    o = regard.attention(q, k, v, mask=mask)
    judge(f"fwd fp32 h=4 s={s} d=64 mask={mask}", q=q, k=k, v=v, o=o)

# Chunks of 32: a row sees its own chunk alone.
ranges = integers([[[i - i % 32, i - i % 32 + 32] for i in range(s)]])
o = regard.attention(q, k, v, ranges=ranges)
judge(f"fwd fp32 h=4 s={s} d=64 ranges", q=q, k=k, v=v, o=o, ranges=ranges)

# Any mask at all, in one bit for each pair; the diagonal keeps every row from being empty.
seen = (torch.rand(1, 4, s, s, device=device) < 0.3) | torch.eye(s, dtype=torch.bool, device=device)
bits = regard.pack_bits(seen)
o = regard.attention(q, k, v, bits=bits)
theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), seen)
assert torch.allclose(o, theirs.transpose(1, 2), atol=1e-5)
judge(f"fwd fp32 h=4 s={s} d=64 bits", q=q, k=k, v=v, o=o, bits=bits)
