"""One call, as it was requested.

Calls with PyTorch tensors are remembered by the properties of their tensors and options (`_core.Calls`): a call that
matches an earlier one is not parsed again, and costs less than PyTorch's own attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _core
from .execution import forget as forget_plans
from .execution import make_outputs, plan_of, run
from .kv_cache import is_without_tokens
from .request import Request, leader_of, read

_known = _core.Calls()
_OF_FORWARD = ("batch_invariant", "splits")  # options that say how forward runs, not what it computes


def forget() -> None:
    """Later calls are planned again, even those that match an earlier one."""
    global _known
    _known = _core.Calls()
    forget_plans()


class Call:
    """A forward call carries its problem, its tensors, and its seed and offset to the call of its gradients."""

    __slots__ = ("_longest", "inputs", "options", "outputs", "pass_")

    def __init__(self, pass_: str, inputs: dict[str, Any], options: dict[str, Any], outputs: dict[str, Any]) -> None:
        """outputs: the requested ones by name: an array to write to, or True. None of the dicts is changed."""
        self.pass_, self.inputs, self.options, self.outputs = pass_, inputs, options, outputs
        self._longest: dict[str, Any] = {}

    def run(self) -> Any:
        results = _known.again(self.pass_, self.inputs, self.options, self.outputs)
        return self.run_first() if results is None else results

    def run_recorded(self, bare: Callable[[Any], Any]) -> Any:
        return run_recorded(self.pass_, self.inputs, self.options, self.outputs, bare)

    def backward(self, grad_o: Any, o: Any, lse: Any, gradients: dict[str, Any], grad_lse: Any = None) -> Call:
        """The call of the gradients; o and lse are the results of this one.

        grad_lse: None if nothing depends on lse. gradients: arrays to write to, and grad_bias=True if that is
        requested.
        """
        inputs = {**self.inputs, "o": o, "lse": lse, "grad_o": grad_o}
        options = {name: option for name, option in self.options.items() if name not in _OF_FORWARD}
        if grad_lse is not None:
            options["grad_lse"] = grad_lse
        return Call("bwd", inputs, {**options, **self._longest}, gradients)

    def run_first(self) -> Any:
        if self.pass_ == "append" and is_without_tokens(self.inputs, self.options):
            return None
        known = _known  # if another thread replaces it meanwhile, this call's plan is not kept
        request = read(self.pass_, self.inputs, self.options, self.outputs)
        self._longest = request.longest
        plan, made = plan_of(request), make_outputs(request)
        results = run(request, plan, made)
        # Without sq and sk the problem of packed sequences depends on the values of their offsets.
        if known.takes(self.inputs[leader_of(self.inputs)]) and request.longest.keys() <= self.options.keys():
            self._remember(known, request, plan, made)
        return results

    def _remember(self, known: _core.Calls, request: Request, plan: _core.Plan, made: dict[str, Any]) -> None:
        described = [
            (name, spec.shape, None if spec.dtype == request.dtype else getattr(made.get(name), "dtype", None))
            for name, spec in request.outputs.items()
        ]
        known.remember(self.pass_, self.inputs, self.options, self.outputs, plan, described, request.zeros)


def run_call(pass_: str, inputs: dict[str, Any], options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """The results of a call without a backward: for a remembered one not even an object is made."""
    results = _known.again(pass_, inputs, options, outputs)
    return Call(pass_, inputs, options, outputs).run_first() if results is None else results


def run_recorded(
    pass_: str,
    inputs: dict[str, Any],
    options: dict[str, Any],
    outputs: dict[str, Any],
    bare: Callable[[Any], Any],
) -> Any:
    """`run_call` for callers that record the call, so that tensors may require gradients; `bare` returns a tensor
    without that flag, and anything else as it is."""
    results = _known.again(pass_, inputs, options, outputs, True)
    if results is not None:
        return results
    inputs, options = ({name: bare(x) for name, x in given.items()} for given in (inputs, options))
    return Call(pass_, inputs, options, outputs).run_first()
