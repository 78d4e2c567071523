"""Turns a call into a foreign call: its text, its arrays, its results, and scratch memory as an extra result."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from .. import _core
from ..arrays import NAMES
from ..errors import RefusedError
from ..execution import plan_of
from ..request import Request, problem_of
from .call import Call
from .sharded import as_varying, with_equal_axes
from .targets import TARGET, platforms

Arrays = tuple[jax.Array, ...]
_Array: Any = jax.ShapeDtypeStruct


def run(call: Call, *arrays: jax.Array) -> Arrays:
    """The results in the problem's order."""
    arrays, axes = with_equal_axes(arrays)
    request = call.request(dict(zip(call.names, arrays, strict=True)))
    programs, refusals = {}, []
    for platform, usual in platforms().items():
        target = usual if call.target is None else call.target
        try:
            programs[platform] = _program(call, request, target)
        except RefusedError as refusal:
            refusals.append(refusal)
            programs[platform] = _program(call, request, target, refused=True)
    if len(refusals) == len(programs):
        raise refusals[0]
    program = programs["cpu"] if len(programs) == 1 else partial(jax.lax.platform_dependent, **programs)
    results = program(*arrays)
    return tuple(as_varying(result, axes) for result in results)


def changed_by(request: Request) -> dict[str, Any]:
    """The tensors that the call changes in place, which are further results here."""
    return {name: spec for name, spec in problem_of(request.text).tensors.items() if spec.use == "changed"}


def _program(call: Call, request: Request, target: str | None, refused: bool = False) -> Any:
    """The foreign call on one platform. If the platform refuses it, the error appears at run time, as only then it is
    known where a program runs.

    The only part that depends on this machine is the size of the scratch memory. An exported program may run where that
    is too small, and the handler then allocates it (python/extension/xla_workspace.h).
    """
    plan_options = (target, call.family, call.threads, call.functions)
    scratch = 0 if refused else plan_of(request._replace(plan_options=plan_options)).workspace_bytes
    made = [_Array(spec.shape, jnp.dtype(NAMES[spec.dtype])) for spec in request.outputs.values()]
    # Rows that no kernel writes have to be zero: such a result is aliased to an input of zeros.
    zeros = made if request.zeros else []
    aliases = {len(call.names) + index: index for index in range(len(zeros))}
    # A changed array is a result that is aliased to the input: XLA copies it first if it is used elsewhere.
    changed = changed_by(request)
    aliases |= {call.names.index(name): len(made) + index for index, name in enumerate(changed)}
    results = [*made, *(_Array(spec.shape, jnp.dtype(NAMES.get(spec.dtype, spec.dtype))) for spec in changed.values())]
    workspace = [_Array((scratch + _core.XLA_WORKSPACE_ALIGNMENT,), jnp.dtype(jnp.uint8))] if scratch else []
    foreign = jax.ffi.ffi_call(
        TARGET,
        [*results, *workspace],
        vmap_method="sequential",
        input_output_aliases=aliases,
    )

    def program(*arrays: jax.Array) -> Arrays:
        found = foreign(
            *arrays,
            *[jnp.zeros(result.shape, result.dtype) for result in zeros],
            problem=request.text,
            inputs=" ".join(call.names),
            outputs=" ".join((*request.outputs, *changed)),
            target=call.target or "",
            family=call.family or "",
            functions=call.functions or "",
            threads=numpy.int32(call.threads),
        )
        return tuple(found[: len(results)])  # platforms differ in their scratch memory

    return program
