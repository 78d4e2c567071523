"""A server's step: new keys, rotated by RoPE, are written into a paged cache, and attention reads all of them."""

import torch
from gallery import device, integers, judge, tensor

import regard

pages_k, pages_v = tensor(8, 16, 2, 64), tensor(8, 16, 2, 64)  # 8 pages of 16 rows
table, lengths = integers([[5, 2], [0, 7]]), integers([20, 3])  # how many rows each sequence has so far
angles = torch.arange(32)[:, None] / 10000.0 ** (torch.arange(32) / 32)
rope = {"rope_cos": angles.cos().to(device), "rope_sin": angles.sin().to(device)}

q, k_new, v_new = tensor(2, 1, 8, 64), tensor(2, 1, 2, 64), tensor(2, 1, 2, 64)
call = {"k_new": k_new, "v_new": v_new, "page_table": table, "lengths_k": lengths, **rope}
o = regard.attention(q, pages_k, pages_v, causal=True, rope="half", **call)
assert torch.equal(pages_v[2, 4], v_new[0, 0]) and torch.equal(pages_v[0, 3], v_new[1, 0])
print("rows 20 and 3 of the two sequences are written")

# The oracle computes the new rows of the cache as well as O.
problem = "fwd fp32 b=2 hq=8 hk=2 sq=1 sk=32 d=64 mask=causal lengths paged=16 pages=8 snew=1 rope=half rotary=64"
judge(problem, q=q, k=pages_k, v=pages_v, o=o, **call)
