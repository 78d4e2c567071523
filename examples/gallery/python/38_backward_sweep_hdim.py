"""Gradients over the head dimension, also where that of V differs."""

from gallery import judge, tensor

import regard

for d, dv in [(32, 32), (64, 64), (128, 128), (96, 64)]:
    q, k, v, grad_o = tensor(1, 64, 2, d), tensor(1, 64, 2, d), tensor(1, 64, 2, dv), tensor(1, 64, 2, dv)
    o, lse = regard.attention(q, k, v, causal=True, lse=True)
    gradients = regard.attention_backward(grad_o, q, k, v, o, lse, causal=True)
    outputs = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))  # noqa: B905
    problem = f"bwd fp32 h=2 s=64 d={d} dv={dv} mask=causal"
    judge(problem, grad_o=grad_o, q=q, k=k, v=v, o=o, lse=lse, **outputs)
