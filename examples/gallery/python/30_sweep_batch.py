"""Time over the batch: work grows with it, on the same kernel."""

from gallery import judge, seconds, target, tensor

import regard

for b in (1, 2, 4, 8):
    problem = regard.Problem(f"fwd fp32 b={b} h=4 s=256 d=64 mask=causal")
    arrays = {name: tensor(*spec.shape) for name, spec in problem.tensors.items()}
    plan = regard.plan(problem, target)
    time = seconds(lambda plan=plan, arrays=arrays: plan.run(**arrays))
    print(f"b={b}: {time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
    judge(problem.text, **arrays)
