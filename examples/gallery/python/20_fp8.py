"""8-bit inputs stand for their value times a factor, here one for each tensor; O is bf16."""

import torch
from gallery import judge, tensor

import regard


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    factor = x.abs().max().reshape(1) / 448  # the largest number of e4m3
    return (x / factor).to(torch.float8_e4m3fn), factor


exact = [tensor(1, 128, 4, 64) for _ in range(3)]
(q, descale_q), (k, descale_k), (v, descale_v) = map(quantised, exact)
factors = {"descale_q": descale_q, "descale_k": descale_k, "descale_v": descale_v}
o = regard.attention(q, k, v, causal=True, **factors)
assert o.dtype == torch.bfloat16
judge("fwd fp8 h=4 s=128 d=64 mask=causal descale=tensor", q=q, k=k, v=v, o=o, **factors)

of_exact = regard.attention(*exact, causal=True)
error = float((o.float() - of_exact).norm() / of_exact.norm())
assert error < 0.1, error
print("o differs from that of fp32 inputs by less than a tenth of its norm")
