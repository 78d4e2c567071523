"""Gradients under torch.func: grad, vjp, jacrev, and vmap of them, for which the operator's own do not work."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidError
from ..unknown import known
from .autograd import forward_mode, learned_of, second_derivative
from .encoding import Encoded, decode, encode, without_empty_lists
from .operators import attention_op, backward_op, without_unrequested
from .tensors import refuse_own_functions, tensor_names

_KNOWN = known()  # None means the default for these; an unknown option is passed on and refused


class Attention(torch.autograd.Function):
    """Inputs: encoded options, q, k, v, and those options that are tensors. Outputs: those of the operator."""

    generate_vmap_rule = True

    @staticmethod
    def forward(encoded: Encoded, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> Any:
        return attention_op(q, k, v, list(tensors), *encoded[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.encoded, q, k, v, *tensors = inputs
        o, lse, *others = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*others)
        ctx.save_for_backward(q, k, v, o, lse, *tensors)

    @staticmethod
    def backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if grad_o is None and grad_lse is None:
            return (None,) * len(ctx.needs_input_grad)
        q, k, v, o, lse, *tensors = ctx.saved_tensors
        grad_o = torch.zeros_like(o) if grad_o is None else grad_o
        names = tensor_names(decode(tensors, *ctx.encoded[1:]))
        learned = learned_of(names, ctx.needs_input_grad[4:])
        found = Gradients.apply(ctx.encoded, ",".join(learned), grad_lse, grad_o, q, k, v, o, lse, *tensors)
        of_names = dict(zip(learned, found[3:]))
        return None, *found[:3], *map(of_names.get, names)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:  # as in hessian, where forward mode is around reverse mode
        raise forward_mode()


class Gradients(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(encoded: Encoded, wanted: str, grad_lse: Tensor | None, *arrays: Tensor) -> Any:
        *found, others = backward_op(*arrays[:6], list(arrays[6:]), *encoded[1:], wanted, grad_lse)
        return *found, *others

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise second_derivative()


def operated(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """The results of `attention`, computed by the operator."""
    if q.is_nested:
        raise InvalidError("q is a nested tensor: pass its values() and offsets() to attention_varlen")
    refuse_own_functions({"q": q, "k": k, "v": v, **options})
    requested = {name: word for name, word in outputs.items() if name != "lse" and word is not False}
    given = {name: option for name, option in options.items() if option is not None or name not in _KNOWN}
    encoded = encode({**given, **requested})
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        results = Attention.apply(encoded._replace(tensors=[]), q, k, v, *encoded.tensors)
    else:
        if torch.compiler.is_exporting():
            encoded = without_empty_lists(encoded, q)
        results = attention_op(q, k, v, *encoded)
    return without_unrequested(results, outputs)
