"""Gradients of shared key/value heads are the sums over the query heads that share them."""

import torch
from gallery import agree, judge, tensor

import regard

q, grad_o = tensor(2, 64, 8, 64), tensor(2, 64, 8, 64)
for hk in (2, 1):
    k, v = tensor(2, 64, hk, 64), tensor(2, 64, hk, 64)
    o, lse = regard.attention(q, k, v, causal=True, lse=True)
    grad_q, grad_k, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, causal=True)
    assert grad_k.shape == k.shape
    outputs = {"grad_q": grad_q, "grad_k": grad_k, "grad_v": grad_v}
    problem = f"bwd fp32 b=2 hq=8 hk={hk} s=64 d=64 mask=causal"
    judge(problem, grad_o=grad_o, q=q, k=k, v=v, o=o, lse=lse, **outputs)

leaf = v.transpose(1, 2).clone().requires_grad_()
theirs = torch.nn.functional.scaled_dot_product_attention(
    q.transpose(1, 2), k.transpose(1, 2), leaf, is_causal=True, enable_gqa=True
)
theirs.backward(grad_o.transpose(1, 2))
agree("grad_v of one head for 8", grad_v, leaf.grad.transpose(1, 2), 1e-4)
