"""Three judges: the library's fp64 oracle, PyTorch, and a second family of kernels. A wrong number is found."""

import torch
from gallery import agree, judge, kind, tensor

import regard

problem = "fwd fp32 b=1 h=4 s=100 d=64 mask=causal"
q, k, v = (tensor(1, 100, 4, 64) for _ in range(3))
o = regard.attention(q, k, v, causal=True)
judge(problem, q=q, k=k, v=v, o=o)

heads_first = (x.transpose(1, 2) for x in (q, k, v))
theirs = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=True).transpose(1, 2)
agree("o", o, theirs, 1e-4)

if kind == "cpu":
    again = regard.attention(q, k, v, causal=True, family="generic")
    agree("o of the generic kernel", again, theirs, 1e-4)

o[0, 50, 2, 7] += 0.01
report = regard.check(problem, q=q, k=k, v=v, o=o)
assert not report["ok"] and report["outputs"]["o"]["wrong"] == 1
print("one changed number of o: found")
