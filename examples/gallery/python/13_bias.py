"""A bias that is added to the scores: elementwise with broadcasting, and ALiBi, which needs no memory."""

from gallery import judge, tensor

import regard

s = 80
q, k, v = (tensor(2, s, 4, 64) for _ in range(3))
for word, shape in {"11": (1, 1), "1h": (1, 4), "b1": (2, 1), "bh": (2, 4)}.items():
    bias = tensor(*shape, s, s)
    o = regard.attention(q, k, v, bias=bias)
    judge(f"fwd fp32 b=2 h=4 s={s} d=64 bias={word}", q=q, k=k, v=v, o=o, bias=bias)

slopes = tensor(4).abs()
o = regard.attention(q, k, v, alibi=slopes, causal=True)
judge(f"fwd fp32 b=2 h=4 s={s} d=64 mask=causal bias=alibi", q=q, k=k, v=v, o=o, alibi=slopes)
