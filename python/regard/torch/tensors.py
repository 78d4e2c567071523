"""Which arguments of a call are tensors, and which of them have gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core
from ..errors import invalid, wrong_type
from ..functions import name_for_messages
from ..words import quote

FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # types that can have gradients
INPUTS = ("q", "k", "v")
_STRIDED = torch.strided
_PLAIN = (Tensor, torch.nn.Parameter)
_TRACED = ("FakeTensor", "FunctionalTensor")  # used by PyTorch for tracing; importing the classes themselves costs time
DIFFERENTIABLE = frozenset((*INPUTS, "bias", "sink"))


def tensor_names(options: dict[str, Any]) -> tuple[str, ...]:
    """The names of those options that are tensors."""
    return tuple([name for name, option in options.items() if isinstance(option, Tensor)])


def refuse_types(**inputs: Any) -> None:
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            raise wrong_type(
                f"{name} is of type {type(value).__name__}; regard.torch takes tensors of PyTorch, and "
                "regard.attention arrays of any library"
            )


def refuse_other_switches(**given: Any) -> None:
    """A symbolic boolean is one of torch.export."""
    for name, value in given.items():
        if not isinstance(value, (bool, torch.SymBool)):
            raise invalid(f"{name} is {quote(value)}; it must be True or False")


def refuse_without_strides(**inputs: Any) -> None:
    """Refuses all but dense tensors, which can be viewed and measured before the library sees them."""
    for name, value in inputs.items():
        if type(value) is not Tensor or value.layout is not _STRIDED or value.is_nested:
            _refuse_other(name, value)


def refuse_others(**inputs: Any) -> None:
    """The same for arguments that may be absent, None."""
    for name, value in inputs.items():
        if value is not None:
            _refuse_other(name, value)


def _refuse_other(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise wrong_type(f"{name} is of type {type(value).__name__}; it must be a tensor of PyTorch")
    if value.layout is not _STRIDED or value.is_nested:
        layout = "nested" if value.is_nested else f"of layout {value.layout}"
        raise invalid(f"{name} is {layout}; it must be dense: pass a padded tensor, or its to_dense()")


def are_bare(options: dict[str, Any]) -> bool:
    """Whether `bare` would change none of them."""
    for option in options.values():
        if type(option) is Tensor:
            if option.requires_grad:
                return False
        elif isinstance(option, Tensor):
            return False
    return True


def bare(value: Any) -> Any:
    """The argument for the library: a tensor without its history; anything else as it is."""
    if type(value) is Tensor and not value.requires_grad:
        return value
    return value.detach() if isinstance(value, Tensor) else value


def plain(tensor: Tensor) -> Tensor:
    """The tensor as class Tensor itself, which remembered calls require; a parameter, for example, is a subclass."""
    return tensor if type(tensor) is Tensor else tensor.detach()


def refuse_freed(**named: Tensor) -> None:
    """Refuses tensors whose storage was freed or cut, before PyTorch reads them: it does not check."""
    if not torch.compiler.is_compiling():
        for name, tensor in named.items():
            _core.check_readable(name, tensor)


def is_memory(tensor: Tensor) -> bool:
    """Whether its memory holds its elements. Only a subclass with its own functions knows what its memory holds."""
    return type(tensor) in _PLAIN or not has_own_functions(type(tensor))


def has_own_functions(kind: type[Tensor]) -> bool:
    return _overrides_functions(kind) or kind.__torch_dispatch__ is not Tensor.__torch_dispatch__


def _overrides_functions(kind: type[Tensor]) -> bool:
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    usual = Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl  # type: ignore[attr-defined]
    return function not in usual


def refuse_own_functions(named: dict[str, Any]) -> None:
    """To be used before calling an operator: PyTorch does not consult such a class then, only one with operators."""
    for name, value in named.items():
        if isinstance(value, Tensor) and type(value) not in _PLAIN and _overrides_functions(type(value)):
            raise invalid(
                f"{name_for_messages(name, named)} is a tensor of type {type(value).__name__}, whose functions are its "
                "own and whose memory need not hold its elements; pass a plain tensor"
            )


def is_traced(tensor: Tensor) -> bool:
    """Whether it stands for a tensor in a graph that PyTorch traces."""
    return type(tensor).__name__ in _TRACED and type(tensor).__module__.startswith("torch._subclasses.")


def is_causal_bias(mask: Tensor | None) -> bool:
    """Whether it is a bias of torch.nn.attention.bias, which may not be imported yet; importing it takes a second."""
    return type(mask).__name__ == "CausalBias" and type(mask).__module__ == "torch.nn.attention.bias"


def written(*memory: Any) -> None:
    """Tells autograd which tensors were written to, so that backward refuses those that it saved before."""
    for tensor in memory:
        if isinstance(tensor, Tensor) and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def zero(*memory: Tensor | None) -> None:
    """Zeroes the memory that is given for results, where rows that are not computed would keep their contents."""
    for tensor in memory:
        if tensor is not None:
            tensor.zero_()


def is_eager(q: Tensor) -> bool:
    """Whether nothing needs to see the call as an operator: no compiler, tracer, mode, transform or subclass."""
    return (
        not torch.compiler.is_compiling()
        and type(q) in _PLAIN
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and not q.is_meta
    )
