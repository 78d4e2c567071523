"""Time over the length: work grows with its square, and the rate with the work of each call."""

from gallery import judge, seconds, target, tensor

import regard

for s in (64, 128, 256, 512, 1024):
    problem = regard.Problem(f"fwd fp32 h=4 s={s} d=64 mask=causal")
    arrays = {name: tensor(*spec.shape) for name, spec in problem.tensors.items()}
    plan = regard.plan(problem, target)
    time = seconds(lambda plan=plan, arrays=arrays: plan.run(**arrays))
    print(f"s={s}: {time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
    judge(problem.text, **arrays)
