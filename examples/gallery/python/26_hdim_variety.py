"""Head dimensions from 1 to 512, odd ones and those of V alone: each gets a kernel, compiled when it is first used."""

from gallery import judge, tensor

import regard

for d, dv in [(64, 64), (7, 7), (80, 80), (192, 128), (64, 40)]:
    q, k, v = tensor(1, 50, 2, d), tensor(1, 50, 2, d), tensor(1, 50, 2, dv)
    o = regard.attention(q, k, v, causal=True)
    assert o.shape == (1, 50, 2, dv)
    judge(f"fwd fp32 h=2 s=50 d={d} dv={dv} mask=causal", q=q, k=k, v=v, o=o)

try:
    regard.attention(*(tensor(1, 8, 1, 600) for _ in range(3)))
except regard.RegardError as error:
    print("refused:", str(error).split(";")[0])
