"""A forward and a backward pass: backward has 2.5 times the work. `regard bench` measures both from the shell."""

from gallery import judge, seconds, target, tensor

import regard

shape = "fp32 b=1 h=4 s=256 d=64 mask=causal"
forward, backward = regard.Problem(f"fwd {shape} lse"), regard.Problem(f"bwd {shape}")
assert backward.flops == 2.5 * forward.flops
arrays = {name: tensor(*spec.shape) for name, spec in (forward.tensors | backward.tensors).items()}
for problem in (forward, backward):
    plan = regard.plan(problem, target)
    own = {name: arrays[name] for name in problem.tensors}
    time = seconds(lambda plan=plan, own=own: plan.run(**own))
    print(f"{time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
    judge(problem.text, **own)
