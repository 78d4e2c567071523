"""Decoding: one query row cannot keep a machine busy, so parts of the keys are computed side by side and merged."""

import json

import torch
from gallery import judge, target, tensor

import regard

q, k, v, o = tensor(1, 1, 8, 64), tensor(1, 4096, 2, 64), tensor(1, 4096, 2, 64), tensor(1, 1, 8, 64)
for splits in (1, 2, 8):
    problem = f"fwd fp32 hq=8 hk=2 sq=1 sk=4096 d=64 splits={splits}"
    plan = regard.plan(problem, target)
    plan.run(q=q, k=k, v=v, o=o)
    stages = len(json.loads(plan.json)["stages"])
    print(f"splits={splits}: {stages} stage{'s' * (stages > 1)}")
    judge(problem, q=q, k=k, v=v, o=o)

# The same by hand: parts of the keys, each with its LSE, and their merge.
parts = [regard.attention(q, k[:, i : i + 1024], v[:, i : i + 1024], lse=True) for i in range(0, 4096, 1024)]
merged, _ = regard.merge(*(torch.stack(results) for results in zip(*parts)))  # noqa: B905
judge("fwd fp32 hq=8 hk=2 sq=1 sk=4096 d=64", q=q, k=k, v=v, o=merged)
