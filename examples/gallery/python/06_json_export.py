"""A problem, its plan, the candidates and the kernels as JSON. `regard list --json` prints the last from the shell."""

import json

from gallery import target

import regard

problem = regard.Problem("fwd bf16 b=2 hq=8 hk=2 s=256 d=128 mask=causal")
fields = json.loads(problem.json)
assert regard.Problem.from_json(problem.json) == problem
print("problem:", {name: fields[name] for name in ("pass", "dtype", "hq", "hk", "mask")})

plan = json.loads(regard.plan(problem, target).json)
print("plan:", sorted(plan))

verdicts = regard.explain(problem, target, format="json")["verdicts"]
assert sum(each["chosen"] for each in verdicts) == 1
print("a verdict:", sorted(verdicts[0]))

kernels = regard.list(target="cpu-avx2", profile="default")
print("a kernel:", sorted(kernels[0]))
