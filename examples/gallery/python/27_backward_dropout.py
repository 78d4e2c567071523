"""Backward draws the mask of forward again: from the seed and the offset, not from memory."""

from gallery import judge, tensor

import regard

q, k, v, grad_o = (tensor(1, 80, 4, 64) for _ in range(4))
options = {"dropout": 0.2, "seed": 11, "offset": 5}
o, lse = regard.attention(q, k, v, lse=True, **options)
grad_q, grad_k, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, **options)
inputs = {"grad_o": grad_o, "q": q, "k": k, "v": v, "o": o, "lse": lse}
outputs = {"grad_q": grad_q, "grad_k": grad_k, "grad_v": grad_v}
judge("bwd fp32 h=4 s=80 d=64 dropout=0.2", **inputs, **outputs, seed=11, offset=5)

problem = "bwd fp32 h=4 s=80 d=64 dropout=0.2"
assert not regard.check(problem, **inputs, **outputs, seed=12, offset=5)["ok"]
print("with another seed the gradients would be wrong")
