"""V whose rows are not contiguous: pages in groups of 16 bytes have a layout; a plain transposed V needs a copy."""

import torch
from gallery import integers, judge, tensor

import regard

pages, page, hk, d, x = 4, 16, 2, 64, 4  # x: fp32 elements in 16 bytes
linear_k, linear_v = tensor(pages, page, hk, d), tensor(pages, page, hk, d)
k = linear_k.view(pages, page, hk, d // x, x).permute(0, 2, 3, 1, 4).reshape(pages, hk, d // x, page * x)
v = linear_v.view(pages, page // x, x, hk, d).permute(0, 3, 1, 4, 2).reshape(pages, hk, page // x, d * x)

q, table, lengths = tensor(2, 1, 4, d), integers([[2, 0], [3, 1]]), integers([25, 32])
call = {"page_table": table, "lengths_k": lengths}
o = regard.attention(q, k.contiguous(), v.contiguous(), kv_layout="vectorized", **call)
assert torch.allclose(o, regard.attention(q, linear_k, linear_v, **call), atol=1e-5)
problem = f"fwd fp32 b=2 hq=4 hk={hk} sq=1 sk=32 d={d} lengths paged={page} pages={pages} kv_layout=vectorized"
judge(problem, q=q, k=k, v=v, o=o, **call)

transposed = tensor(1, hk, d, 32).permute(0, 3, 1, 2)  # [b, s, hk, d] in memory as [b, hk, d, s]
try:
    regard.attention(tensor(1, 32, 4, d), tensor(1, 32, hk, d), transposed)
except regard.InvalidError as error:
    print("refused:", error)
