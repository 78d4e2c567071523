"""Everything around a call: plans, explanations, and information about this installation."""

from __future__ import annotations

import json
import os
from typing import Any, Literal, overload

from . import _core
from ._core import Plan, Problem


def _problem(problem: Problem | str) -> Problem:
    return problem if isinstance(problem, Problem) else Problem(problem)


def plan(
    problem: Problem | str,
    target: str | None = None,
    family: str | None = None,
    threads: int = 0,
    functions: str | None = None,
) -> Plan:
    """Decides how `problem` is computed.

    target: a target of this machine such as "cpu-avx2"; None takes the best one.
    family: only this family or kernel, e.g. "generic" or, with numbers of its tile, "sm90_forward cluster=2", so that
    one can be checked against another. Numbers of the plan may follow: "decode splits=8 threads=2".
    threads: 0 takes REGARD_THREADS, or all cores.
    functions: compute `score` and `keep` only by "words" of the problem, with `keep` as "ranges" or "bits", or only
        "interpreted"; None takes any.

    Returns a `Plan`, to prepare and run.

    Raises InvalidError for wrong text or an unknown target, RefusedError if nothing here solves the problem.
    """
    return Plan(_problem(problem), target, family, threads, functions)


@overload
def explain(
    problem: Problem | str,
    target: str | None = ...,
    family: str | None = ...,
    threads: int = ...,
    functions: str | None = ...,
    *,
    format: Literal["text", "all"] = ...,
) -> str: ...
@overload
def explain(
    problem: Problem | str,
    target: str | None = ...,
    family: str | None = ...,
    threads: int = ...,
    functions: str | None = ...,
    *,
    format: Literal["json"],
) -> dict[str, Any]: ...
def explain(
    problem: Problem | str,
    target: str | None = None,
    family: str | None = None,
    threads: int = 0,
    functions: str | None = None,
    *,
    format: str = "text",
) -> str | dict[str, Any]:
    """Every candidate for `problem` with its verdict: why it was chosen, or why it lost.

    A refusal of the whole problem is not an error here: the explanation reports it.
    format: "text" gives a page to read, "all" one with a line for every refused candidate, "json" a dict.
    The other arguments are those of `plan`.

    Raises InvalidError for wrong text, or an unknown target or format.
    """
    text = _core.explain(_problem(problem), target, family, threads, functions, format)
    return json.loads(text) if format == "json" else text


def check(problem: Problem | str, *, seed: Any = 0, offset: int = 0, **tensors: Any) -> dict[str, Any]:
    """Compares outputs with the fp64 oracle, which computes them again from the inputs.

    The keywords are those of `Plan.run`: tensors, namely inputs and the outputs to be checked, and seed and offset of
    dropout. The report gives for every output the largest absolute and relative error, the tolerance, and "ok".

    Raises InvalidError for arrays that do not fit the problem; a failed check is not an error.
    """
    report: dict[str, Any] = json.loads(_core.check(_problem(problem), seed, offset, tensors))
    return report


def rerun(
    folder: str | os.PathLike[str],
    target: str | None = None,
    family: str | None = None,
    threads: int = 0,
    *,
    oracle: bool = False,
) -> dict[str, Any]:
    """Runs a call that REGARD_SAVE_CALLS saved in `folder` again, and compares the results with the saved ones.

    target, family, threads: as for `plan`; by default those of the saved call.
    oracle: also judge both results by the fp64 oracle, as `check` does.

    The report's "verdict" is "same_bits", "within_bound" (of another order of sums, where "bits_may_differ" says why
    bits may differ), "different", or "same_error" if the saved call failed in that way. "outputs" has for each output
    the number of elements with other bits ("different"), of those outside the bound ("outside"), and the "first" one.

    Raises InvalidError if the folder holds no saved call, RefusedError if this machine does not have its target.
    """
    report: dict[str, Any] = json.loads(_core.rerun(os.fspath(folder), target, family, threads, oracle))
    return report


def info() -> dict[str, Any]:
    """This machine, its targets, the compilers found, the settings in force, and counts by tier: what `regard info`
    prints, as a dict.

    Raises InvalidError (a ValueError) for a setting that cannot be read.
    """
    result: dict[str, Any] = json.loads(_core.info())
    return result


def list(target: str | None = None, profile: str | None = None) -> Any:
    """The kernels that are available, by target, profile and tier: for each a dict with "kernel", "target" and "tier".

    Raises InvalidError for an unknown target or profile.
    """
    return json.loads(_core.list(target, profile))


def cache(verb: Literal["list", "stat", "verify", "gc", "clean"]) -> Any:
    """Inspects or cleans the cache of compiled kernels.

    "list" returns a dict for each entry (its key, size in bytes, kernel and compiler), "verify" also checks them, and
    says of each that is damaged why. "stat" returns the folder, its size and its bound in bytes; "gc" removes what
    was used longest ago until the bound is kept, "clean" everything, and both return the same dict.

    Raises InvalidError for another verb.
    """
    return json.loads(_core.cache(verb))


def words() -> Any:
    """Every word of problem text: a dict with "word", "default", "doc", and "in_signature": whether a kernel's code may
    depend on it. docs/problem.md is made from them. Raises nothing."""
    return json.loads(_core.words())
