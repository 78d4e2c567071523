"""The gradient of a bias is summed over the dimensions along which the bias is shared."""

import torch
from gallery import agree, judge, tensor

import regard

q, k, v, grad_o = (tensor(2, 64, 4, 64) for _ in range(4))
bias = tensor(1, 4, 64, 64)  # one for each head, shared by the batch
o, lse = regard.attention(q, k, v, bias=bias, lse=True)
*gradients, grad_bias = regard.attention_backward(grad_o, q, k, v, o, lse, bias=bias, grad_bias=True)
assert grad_bias.shape == bias.shape
outputs = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))  # noqa: B905
inputs = {"grad_o": grad_o, "q": q, "k": k, "v": v, "o": o, "lse": lse, "bias": bias}
judge("bwd fp32 b=2 h=4 s=64 d=64 bias=1h dbias", **inputs, **outputs, grad_bias=grad_bias)

leaf = bias.clone().requires_grad_()
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # its other kernels refuse this in fp32
    theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), leaf)
    theirs.backward(grad_o.transpose(1, 2))
agree("grad_bias", grad_bias, leaf.grad, 1e-4)
