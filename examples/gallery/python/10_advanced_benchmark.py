"""Warm and cold: memory that a call finds in a cache makes it look faster than it is in a model."""

import torch
from gallery import device, judge, seconds, target, tensor

import regard

problem = regard.Problem("fwd fp32 b=4 hq=8 hk=8 sq=1 sk=1024 d=64")
arrays = {"q": tensor(4, 1, 8, 64), "k": tensor(4, 1024, 8, 64), "v": tensor(4, 1024, 8, 64)}
arrays["o"] = tensor(4, 1, 8, 64)
plan = regard.plan(problem, target)
bytes_read = 4 * sum(x.numel() for x in arrays.values())
flush = torch.zeros(64 << 20, dtype=torch.uint8, device=device)  # larger than the last level of the cache


def run() -> None:
    plan.run(**arrays)


warm = seconds(run, repeat=20)
cold = seconds(run, repeat=20, before=lambda: flush.add_(1))
for name, time in (("warm", warm), ("cold", cold)):
    print(f"{name}: {time * 1e6:.0f} us, {bytes_read / time / 1e9:.1f} GB/s")
judge(problem.text, **arrays)
