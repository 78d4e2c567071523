"""Sequences of different lengths: padded with logical lengths, or packed without any padding."""

import torch
from gallery import integers, judge, tensor

import regard

lengths = [50, 128, 7]
q, k, v = (tensor(3, 128, 4, 64) for _ in range(3))
for i, length in enumerate(lengths):
    q[i, length:] = k[i, length:] = v[i, length:] = torch.nan  # is never read

n = integers(lengths)
o = regard.attention(q, k, v, causal=True, lengths_q=n, lengths_k=n)
judge("fwd fp32 b=3 h=4 s=128 d=64 mask=causal lengths", q=q, k=k, v=v, o=o, lengths_q=n, lengths_k=n)

packed = [torch.cat([x[i, :length] for i, length in enumerate(lengths)]) for x in (q, k, v)]
offsets = integers([0, 50, 178, 185])
of_packed = regard.attention(*packed, causal=True, offsets_q=offsets, offsets_k=offsets, sq=128, sk=128)
padded = torch.cat([o[i, :length] for i, length in enumerate(lengths)])
assert torch.allclose(of_packed, padded, atol=1e-5)
print("packed and padded sequences have the same results")
