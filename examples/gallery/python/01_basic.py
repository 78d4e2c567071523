"""A problem, its plan, its kernels, a run, and the verdict of the oracle."""

from gallery import judge, target, tensor

import regard

problem = "fwd fp32 b=2 hq=8 hk=2 s=128 d=64 mask=causal lse"
q, k, v = tensor(2, 128, 8, 64), tensor(2, 128, 2, 64), tensor(2, 128, 2, 64)
o, lse = tensor(2, 128, 8, 64), tensor(2, 8, 128)

plan = regard.plan(problem, target)
plan.prepare()  # finds or compiles every kernel now, so that the first run does not have to
plan.run(q=q, k=k, v=v, o=o, lse=lse)
judge(problem, q=q, k=k, v=v, o=o, lse=lse)
