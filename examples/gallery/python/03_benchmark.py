"""Time and rate over batch and length. `regard bench PROBLEM` measures the same from the shell."""

from gallery import judge, seconds, target, tensor

import regard

for b in (1, 4):
    for s in (128, 512):
        problem = regard.Problem("fwd fp32 mask=causal h=4 d=64", b=b, s=s)
        q, k, v, o = (tensor(b, s, 4, 64) for _ in range(4))
        plan = regard.plan(problem, target)
        arrays = {"q": q, "k": k, "v": v, "o": o}
        time = seconds(lambda plan=plan, arrays=arrays: plan.run(**arrays))
        print(f"b={b} s={s}: {time * 1e6:.0f} us, {problem.flops / time / 1e9:.1f} GFLOP/s")
        judge(problem.text, **arrays)
