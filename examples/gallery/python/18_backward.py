"""Gradients from O and LSE of the forward pass, compared with those of PyTorch's autograd."""

import torch
from gallery import agree, judge, tensor

import regard

q, k, v, grad_o = (tensor(2, 100, 4, 64) for _ in range(4))
o, lse = regard.attention(q, k, v, causal=True, lse=True)
grad_q, grad_k, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, causal=True)
gradients = {"grad_q": grad_q, "grad_k": grad_k, "grad_v": grad_v}
judge("bwd fp32 b=2 h=4 s=100 d=64 mask=causal", grad_o=grad_o, q=q, k=k, v=v, o=o, lse=lse, **gradients)

leaves = [x.transpose(1, 2).clone().requires_grad_() for x in (q, k, v)]
theirs = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
theirs.backward(grad_o.transpose(1, 2))
for (name, ours), leaf in zip(gradients.items(), leaves):  # noqa: B905
    agree(name, ours, leaf.grad.transpose(1, 2), 1e-4)
