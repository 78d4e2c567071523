"""A user-defined choice of kernels for the whole process: a function of the ranked candidates of each new plan."""

from gallery import judge, target, tensor

import regard


def whole_keys(problem: regard.Problem, where: str, candidates: dict[str, float]) -> "str | None":
    """The best candidate whose kernels do not divide the keys; None leaves it to the cost model."""
    return next((name for name in candidates if "combine" not in name), None)


problem = regard.Problem("fwd fp32 b=1 hq=8 hk=2 sq=1 sk=2048 d=64")
q, k, v, o = tensor(1, 1, 8, 64), tensor(1, 2048, 2, 64), tensor(1, 2048, 2, 64), tensor(1, 1, 8, 64)


def run() -> None:
    plan = regard.plan(problem, target)
    plan.run(q=q, k=k, v=v, o=o)
    judge(problem.text, q=q, k=k, v=v, o=o)
    explanation = regard.explain(problem, target, format="json")
    print(f"{len(explanation['plan']['stages'])} stage(s), chosen by {explanation['chosen_by']}")


run()
regard.choose_by(whole_keys)
run()
regard.choose_by(None)
