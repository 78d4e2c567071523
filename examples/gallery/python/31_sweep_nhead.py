"""Time over the number of heads: each is a block of work of its own."""

from gallery import judge, seconds, target, tensor

import regard

for h in (1, 2, 4, 8, 16):
    problem = regard.Problem(f"fwd fp32 h={h} s=256 d=64 mask=causal")
    arrays = {name: tensor(*spec.shape) for name, spec in problem.tensors.items()}
    plan = regard.plan(problem, target)
    time = seconds(lambda plan=plan, arrays=arrays: plan.run(**arrays))
    print(f"h={h}: {time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
    judge(problem.text, **arrays)
