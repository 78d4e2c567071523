"""Grouped queries: several query heads read one key/value head, down to one for all (MQA)."""

import torch
from gallery import agree, judge, tensor

import regard

q = tensor(2, 64, 12, 64)
for hk in (12, 4, 1):
    k, v = tensor(2, 64, hk, 64), tensor(2, 64, hk, 64)
    o = regard.attention(q, k, v, causal=True)
    judge(f"fwd fp32 b=2 hq=12 hk={hk} s=64 d=64 mask=causal", q=q, k=k, v=v, o=o)

theirs = torch.nn.functional.scaled_dot_product_attention(
    *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, enable_gqa=True
)
agree("o of 12 heads on 1", o, theirs.transpose(1, 2), 1e-4)

try:
    regard.attention(q, q[:, :, :5], q[:, :, :5])
except regard.InvalidError as error:
    print("refused:", error)
