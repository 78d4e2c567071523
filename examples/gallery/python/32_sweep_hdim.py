"""Time over the head dimension: each has a kernel of its own, which is compiled in the call that does not count."""

from gallery import judge, seconds, target, tensor

import regard

for d in (32, 64, 128, 256):
    problem = regard.Problem(f"fwd fp32 h=4 s=256 d={d} mask=causal")
    arrays = {name: tensor(*spec.shape) for name, spec in problem.tensors.items()}
    plan = regard.plan(problem, target)
    time = seconds(lambda plan=plan, arrays=arrays: plan.run(**arrays))
    print(f"d={d}: {time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
    judge(problem.text, **arrays)
