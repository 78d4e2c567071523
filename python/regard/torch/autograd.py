"""Calls that autograd records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..call import Call, run_recorded
from ..errors import InvalidError, RefusedError, invalid
from ..functions import index_of, is_captured, names_of
from ..shapes import LAYOUTS
from .profiling import BACKWARD, FORWARD, is_profiled, shown
from .tensors import DIFFERENTIABLE, INPUTS, bare, plain, tensor_names

F = TypeVar("F", bound=Callable[..., Any])


def is_recorded(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    return (options and any_learned(options)) or q.requires_grad or k.requires_grad or v.requires_grad


def unrecorded(function: F) -> F:
    """What torch.no_grad() does as a decorator, in a fraction of its time except where PyTorch compiles."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            with torch.no_grad():
                return function(*arguments, **named)
        if not torch.is_grad_enabled():
            return function(*arguments, **named)
        torch._C._set_grad_enabled(False)
        try:
            return function(*arguments, **named)
        finally:
            torch._C._set_grad_enabled(True)

    return cast(F, call)


def any_learned(options: dict[str, Any]) -> bool:
    found = False
    for name, option in options.items():
        if isinstance(option, Tensor) and option.requires_grad:
            if name not in DIFFERENTIABLE and not is_captured(name):
                raise no_gradient(name)
            found = True
    return found


def no_gradient(name: str) -> InvalidError:
    return invalid(f"{name} requires a gradient, and there is none for it: pass {name}.detach()")


def learned_of(names: Sequence[str], requested: Sequence[bool]) -> list[str]:
    """The options whose gradients are requested."""
    learned = [name for name, needed in zip(names, requested) if needed]
    for name in learned:
        if name not in DIFFERENTIABLE and not is_captured(name):
            raise no_gradient(name)
    return learned


def refuse_tangents(*values: Any) -> None:
    for value in values:
        if isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise forward_mode()


def forward_mode() -> RefusedError:
    return RefusedError(
        "attention has no forward-mode differentiation (jvp) here: differentiate in reverse, as torch.func.grad, vjp "
        "and jacrev do"
    )


def refuse_to_write(outputs: dict[str, Any]) -> None:
    for name, requested in outputs.items():
        if requested is not False and isinstance(requested, Tensor):
            name = "out" if name == "o" else name
            raise invalid(
                f"{name} is a tensor to write to, which a call that PyTorch differentiates, compiles or traces does "
                "not take: leave it out, as results are returned"
            )


def refuse_row_max(outputs: dict[str, Any]) -> None:
    """For operators of caches, which do not return it."""
    if outputs["row_max"]:
        raise RefusedError(
            "row_max cannot be returned by latent attention, or together with new tokens, in code that PyTorch "
            "compiles or traces: leave it out, or call attention elsewhere"
        )


_living = torch._C._functorch.unwrap_if_dead  # unwraps a tensor that outlived its transform


def recorded(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """The results of `attention`, with the backward pass recorded by autograd."""
    outputs, wants_lse = {**outputs, "lse": True}, outputs["lse"]
    if not options:
        return _apply(((), options, outputs, wants_lse), _living(q), _living(k), _living(v))
    names = tensor_names(options)
    tensors = [options.pop(name) for name in names]
    options = {name: kept(option) for name, option in options.items()}
    return _apply((names, options, outputs, wants_lse), *map(_living, (q, k, v, *tensors)))


def kept(option: Any) -> Any:
    """A copy of the option for backward, which later changes to the caller's list or array do not affect."""
    if isinstance(option, list):
        return tuple(option)
    return option.copy() if isinstance(option, numpy.ndarray) else option


def with_all_rows(bias: Tensor, q: Tensor, options: dict[str, Any]) -> Tensor:
    """The bias in the shape of its gradient: four dimensions, with a row for each query."""
    if not 1 <= bias.dim() <= 4:
        return bias  # which is refused later
    bias = bias[(None,) * (4 - bias.dim())]
    rows = options.get("sq") if "offsets_q" in options else rows_of(q, options.get("layout", "bshd"))
    return bias.expand(-1, -1, rows, -1) if rows and bias.shape[2] == 1 else bias


def rows_of(q: Tensor, layout: Any) -> int | None:
    return q.shape[layout.index("s")] if layout in LAYOUTS and q.dim() == 4 else None


class Attention(torch.autograd.Function):
    """Inputs: the request; q, k, v, and those options that are tensors. Outputs: o, and the other requested ones.

    The request is one argument, as each costs PyTorch time: the names of those options, the other options, the outputs,
    and whether lse is one of them.
    """

    @staticmethod
    def forward(ctx: Any, asked: Any, *tensors: Tensor) -> Any:
        names, options, outputs, wants_lse = asked
        run = shown(run_recorded, FORWARD, *tensors[: len(INPUTS)]) if is_profiled() else run_recorded
        results = run("fwd", *of_forward(names, options, tensors), outputs, bare)
        o, lse, *others = results
        ctx.save_for_backward(*tensors, o, lse)
        if others:
            ctx.mark_non_differentiable(*others)
        ctx.asked = names, options
        ctx.set_materialize_grads(False)  # so that a gradient of lse is present only if it is needed
        if wants_lse:
            return results
        return (o, *others) if others else o

    @staticmethod
    def backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None = None, *_: Tensor | None) -> tuple[Any, ...]:
        if grad_o is None and grad_lse is None:
            return (None,) * len(ctx.needs_input_grad)
        if any(torch._C._functorch.is_legacy_batchedtensor(x) for x in (grad_o, grad_lse) if x is not None):
            raise RefusedError(
                "attention takes no batch of gradients (is_grads_batched=True, or jacobian with vectorize=True): use "
                "torch.func.vmap over torch.func.vjp, or torch.func.jacrev"
            )
        if grad_o is None:
            grad_o = torch.zeros_like(ctx.saved_tensors[-2])
        arguments = (*ctx.asked, ctx.needs_input_grad[1:], grad_o, grad_lse, *ctx.saved_tensors)
        run = Gradients.apply if torch.is_grad_enabled() else gradients
        if is_profiled():
            run = shown(run, BACKWARD, grad_o, *ctx.saved_tensors[: len(INPUTS)])
        return None, *run(*arguments)


# What Function.apply ends in outside of transforms (torch.func), without a tenth of a call's time in Python.
_apply = super(torch.autograd.Function, Attention).apply


class Gradients(torch.autograd.Function):
    """Gradients that can be recorded; differentiating them again raises an error."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor | None, ...]:
        return gradients(*arguments)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise second_derivative()


def second_derivative() -> RefusedError:
    return RefusedError(
        "attention has no second derivatives here: use torch.nn.functional.scaled_dot_product_attention under "
        "torch.nn.attention.sdpa_kernel(SDPBackend.MATH) for them"
    )


def of_forward(
    names: tuple[str, ...], options: dict[str, Any], tensors: Sequence[Tensor]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs and the options of the forward call."""
    q, k, v, *others = tensors
    inputs = {"q": plain(q), "k": plain(k), "v": plain(v)}
    return inputs, {**options, **{name: plain(tensor) for name, tensor in zip(names, others)}} if names else options


def gradients(
    names: tuple[str, ...],
    options: dict[str, Any],
    requested: Sequence[bool],
    grad_o: Tensor,
    grad_lse: Tensor | None,
    *saved: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of q, k, v and of the tensors with these names, None if there is none or it is not needed."""
    *tensors, o, lse = saved
    index = len(INPUTS) + names.index("bias") if "bias" in names else 0
    grad_bias = index > 0 and requested[index]
    if grad_bias:
        bias = tensors[index]
        tensors[index] = with_all_rows(bias, tensors[0], {**options, **dict(zip(names, tensors[len(INPUTS) :]))})
    if grad_o.stride(-1) != 1:  # such as the gradient of a sum, which is one number for all
        grad_o = grad_o.contiguous()
    if grad_lse is not None and grad_lse.stride(-1) != 1:
        grad_lse = grad_lse.contiguous()
    asked = zip(names, requested[len(INPUTS) :])
    learned = sorted((name for name, needed in asked if needed and is_captured(name)), key=index_of)
    if learned:
        of_indices = names_of(options["tensors"])
        options = {**options, "grads": ",".join(of_indices[index_of(name)] for name in learned)}
    forward = Call("fwd", *of_forward(names, options, tensors), {})
    results = forward.backward(grad_o, o, lse, {"grad_bias": grad_bias}, grad_lse).run_recorded(bare)
    if not names:
        return tuple([gradient if needed else None for gradient, needed in zip(results, requested)])
    found = dict(
        zip((*INPUTS, *(["bias"] if grad_bias else []), *(["sink"] if "sink" in names else []), *learned), results)
    )
    for name in learned:
        found[name] = found[name].to(tensors[len(INPUTS) + names.index(name)].dtype)
    if grad_bias:
        found["bias"] = found["bias"].sum_to_size(bias.shape)
    return tuple([found.get(name) if needed else None for name, needed in zip((*INPUTS, *names), requested)])
