"""Many shapes, one kernel: lengths, heads and batch are numbers passed to it."""

import json

from gallery import judge, target, tensor

import regard

kernels = set()
for b, hq, hk, sq, sk in [(1, 4, 4, 64, 64), (2, 8, 2, 77, 130), (3, 4, 1, 200, 200), (1, 16, 16, 33, 257)]:
    problem = f"fwd fp32 b={b} hq={hq} hk={hk} sq={sq} sk={sk} d=64 mask=causal"
    q, k, v, o = tensor(b, sq, hq, 64), tensor(b, sk, hk, 64), tensor(b, sk, hk, 64), tensor(b, sq, hq, 64)
    plan = regard.plan(problem, target, family="forward")
    plan.run(q=q, k=k, v=v, o=o)
    judge(problem, q=q, k=k, v=v, o=o)
    kernels |= {stage["kernel"] for stage in json.loads(plan.json)["stages"]}
print(f"kernels: {len(kernels)}")
