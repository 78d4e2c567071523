"""Dropout: the mask is a function of seed, offset and position, the same on every target and in every pass."""

import torch
from gallery import judge, tensor

import regard

q, k, v = (tensor(1, 128, 4, 64) for _ in range(3))
o, mask = regard.attention(q, k, v, dropout=0.25, seed=7, offset=3, dropout_mask=True)
problem = "fwd fp32 h=4 s=128 d=64 dropout=0.25 dropout_mask"
judge(problem, q=q, k=k, v=v, o=o, dropout_mask=mask, seed=7, offset=3)

again = regard.attention(q, k, v, dropout=0.25, seed=7, offset=3)
other = regard.attention(q, k, v, dropout=0.25, seed=8, offset=3)
assert torch.equal(o, again) and not torch.equal(o, other)
assert abs(float(mask.float().mean()) - 0.75) < 0.01
print("the same seed gives the same bits, another seed others; three quarters of the weights are kept")
