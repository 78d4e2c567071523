"""The order of axes: three named layouts, and views with any strides whose last one is 1. Nothing is copied."""

import torch
from gallery import agree, tensor

import regard

b, s, h, d = 2, 70, 4, 64
qkv = tensor(b, s, 3, h, d)  # one projection
q, k, v = qkv.unbind(2)
o = regard.attention(q, k, v, causal=True)
theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
agree("o of a packed projection", o, theirs.transpose(1, 2), 1e-4)

for layout, axes in {"bhsd": (0, 2, 1, 3), "sbhd": (1, 0, 2, 3)}.items():
    permuted = regard.attention(*(x.permute(axes) for x in (q, k, v)), causal=True, layout=layout)
    assert torch.equal(permuted, o.permute(axes))
    print(f"{layout}: the same bits")
