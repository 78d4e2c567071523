"""From a request to its results: gets a remembered plan or makes one, allocates missing outputs, runs the kernels."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from . import _core
from .arrays import as_kind, empty_like_kind
from .request import Request, leader_of, problem_of


def _planned(text: str, target: Any, family: Any, threads: Any, functions: Any = None) -> _core.Plan:
    return _core.Plan(problem_of(text), target, family, threads, functions)


_remembered = lru_cache(maxsize=1024)(_planned)


def planned(text: str, *plan_options: Any) -> _core.Plan:
    """plan_options: target, family, threads and, where there are functions, how they are computed."""
    try:
        return _remembered(text, *plan_options)
    except TypeError:  # an unhashable value is not a valid option either: the plan says which one
        return _planned(text, *plan_options)


def forget() -> None:
    """Later calls are planned again. Calls that are being planned in other threads do not bring old plans back."""
    global _remembered
    _remembered = lru_cache(maxsize=1024)(_planned)
    _core.forget_xla_plans()


def plan_of(request: Request) -> _core.Plan:
    return planned(request.text, *request.plan_options)


def make_outputs(request: Request) -> dict[str, Any]:
    """Memory for the outputs that the caller does not give."""
    given = request.tensors
    leader = given[leader_of(given)]
    return {
        name: empty_like_kind(leader, request.dtype, spec, request.zeros)
        for name, spec in request.outputs.items()
        if name not in given
    }


def run(request: Request, plan: _core.Plan, made: dict[str, Any]) -> Any:
    """The results, in the order of the outputs; a single one is not in a tuple."""
    given = request.tensors
    plan.run(**request.run_options, **given, **made)
    results = tuple(
        [as_kind(given[leader_of(given)], made[name]) if name in made else given[name] for name in request.outputs]
    )
    return results[0] if len(results) == 1 else results
