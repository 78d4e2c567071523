"""The choice of a kernel: Regard ranks candidates by its cost model, and a caller may take another one by `family`."""

from gallery import judge, target, tensor

import regard


def own_choice(problem: regard.Problem, few_rows: bool) -> str:
    """An accepted kernel that splits the keys if there are few rows, else one that does not."""
    verdicts = regard.explain(problem, target, format="json")["verdicts"]
    accepted = [each["candidate"] for each in verdicts if each["accepted"]]
    fitting = [each for each in accepted if (" + " in each) == few_rows]
    return (fitting or accepted)[0].split()[0]


for sq in (1, 256):
    problem = regard.Problem(f"fwd fp32 b=1 hq=8 hk=2 sq={sq} sk=2048 d=64")
    q, k, v, o = tensor(1, sq, 8, 64), tensor(1, 2048, 2, 64), tensor(1, 2048, 2, 64), tensor(1, sq, 8, 64)
    plan = regard.plan(problem, target, family=own_choice(problem, few_rows=sq == 1))
    plan.run(q=q, k=k, v=v, o=o)
    judge(problem.text, q=q, k=k, v=v, o=o)

try:
    regard.plan("fwd fp32 s=64 d=64", target, family="fastest")
except regard.RegardError as error:
    print("a name that does not exist:", str(error).split(";")[0])
