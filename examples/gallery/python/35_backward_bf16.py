"""Gradients in bf16 through PyTorch's autograd: regard.torch records the call."""

import torch
from gallery import judge, tensor

import regard.torch

shape = (2, 120, 4, 128)
q, k, v = (tensor(*shape, dtype=torch.bfloat16).requires_grad_() for _ in range(3))
grad_o = tensor(*shape, dtype=torch.bfloat16)
o, lse = regard.torch.attention(q, k, v, causal=True, lse=True)
o.backward(grad_o)
inputs = {"grad_o": grad_o, "q": q.detach(), "k": k.detach(), "v": v.detach(), "o": o.detach(), "lse": lse.detach()}
outputs = {"grad_q": q.grad, "grad_k": k.grad, "grad_v": v.grad}
judge("bwd bf16 b=2 h=4 s=120 d=128 mask=causal", **inputs, **outputs)
