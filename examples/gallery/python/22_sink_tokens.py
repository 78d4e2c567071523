"""Two kinds of sinks: first tokens that stay visible left of a window, and a learned logit for each head."""

import torch
from gallery import agree, judge, tensor

import regard

s = 100
q, k, v = (tensor(1, s, 4, 64) for _ in range(3))
o = regard.attention(q, k, v, window=(16, 0), sink_tokens=4)
judge(f"fwd fp32 h=4 s={s} d=64 mask=window:16,0,sink=4", q=q, k=k, v=v, o=o)

i, j = torch.arange(s, device=q.device)[:, None], torch.arange(s, device=q.device)
seen = (j <= i) & ((j >= i - 16) | (j < 4))
theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), seen)
agree("o", o, theirs.transpose(1, 2), 1e-4)

sink = tensor(4)  # takes part in the softmax, has no value
o = regard.attention(q, k, v, sink=sink, causal=True)
judge(f"fwd fp32 h=4 s={s} d=64 mask=causal sink", q=q, k=k, v=v, o=o, sink=sink)
