"""bf16 in and out: sums and softmax are in fp32, and the only roundings are those of the weights and of O."""

import torch
from gallery import judge, tensor

import regard

q, k, v = (tensor(2, 200, 4, 128, dtype=torch.bfloat16) for _ in range(3))
o, lse = regard.attention(q, k, v, causal=True, lse=True)
assert o.dtype == torch.bfloat16 and lse.dtype == torch.float32
judge("fwd bf16 b=2 h=4 s=200 d=128 mask=causal lse", q=q, k=k, v=v, o=o, lse=lse)

exact = regard.attention(q.float(), k.float(), v.float(), causal=True)
error = float((o.float() - exact).abs().max() / exact.abs().max())
assert error < 2**-7, error
print("o differs from that of fp32 by less than 1 / 128 of the largest number")
