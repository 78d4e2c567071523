"""regard::attention and regard::attention_backward: calls as nodes of PyTorch's graphs.

They serve torch.compile, torch.export, tracers, dispatch modes and torch.func; elsewhere `autograd` costs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..arrays import bits_by_torch
from ..call import run_call
from ..errors import invalid
from ..functions import name_for_messages
from .autograd import gradients, learned_of, second_derivative
from .batching import each_rule, forward_rule
from .encoding import SCHEMA, decode
from .profiling import BACKWARD, FORWARD
from .shapes import Sizes
from .tensors import INPUTS, bare, tensor_names

_DEVICES = ("cpu", "cuda")
_OTHERS = {"dropout_mask": torch.uint8, "row_max": torch.float32}  # results without gradients
_TAGS = (torch.Tag.pt2_compliant_tag,)

# torch.library.custom_op would do the same in one step, but each call would cost three times as much.
torch.library.define(
    FORWARD, f"(Tensor q, Tensor k, Tensor v, {SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor)", tags=_TAGS
)
torch.library.define(
    BACKWARD,
    f"(Tensor grad_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {SCHEMA}, str wanted, "
    "Tensor? grad_lse=None) -> "
    "(Tensor, Tensor, Tensor, Tensor[])",
    tags=_TAGS,
)
attention_op = torch.ops.regard.attention.default
backward_op = torch.ops.regard.attention_backward.default


def _decoded(*encoded: Any) -> dict[str, Any]:
    """The options; a boolean mask, which graphs hold while its words cannot be counted yet, becomes bits."""
    options = decode(*encoded)
    if "bits" in options and options["bits"].dtype == torch.bool:
        options["bits"] = bits_by_torch(options["bits"])
    return options


def _run_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: Sequence[Tensor],
    whole: Sequence[int],
    real: Sequence[float],
    text: str,
) -> tuple[Tensor, ...]:
    """o, lse, the dropout mask and row_max; the last two have no elements unless they are requested."""
    options = _decoded(tensors, whole, real, text)
    outputs: dict[str, Any] = {"lse": True}
    outputs.update({name: options.pop(name) for name in (*_OTHERS, "out") if name in options})
    options = {name: bare(option) for name, option in options.items()}
    o, lse, *others = run_call("fwd", {"q": bare(q), "k": bare(k), "v": bare(v)}, options, outputs)
    found = iter(others)
    return o, lse, *[next(found) if outputs.get(name) else nothing(q, dtype) for name, dtype in _OTHERS.items()]


def _forward_without_memory(q: Tensor, k: Tensor, v: Tensor, *encoded: Any) -> tuple[Tensor, ...]:
    options = decode(*encoded)
    refuse_devices({"q": q, "k": k, "v": v, **options})
    sizes = Sizes(q, k, v, options)
    others = [getattr(sizes, name)() if options.get(name) else nothing(q, dtype) for name, dtype in _OTHERS.items()]
    return sizes.o(), sizes.lse(), *others


def without_unrequested(results: tuple[Tensor, ...], outputs: dict[str, Any]) -> Any:
    """The results of the operator, as `attention` returns them; outputs: what was requested, by name."""
    o, *others = results
    found = (o, *[other for name, other in zip(("lse", *_OTHERS), others) if outputs[name]])
    return found if len(found) > 1 else o


def _run_backward(
    grad_o: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    tensors: Sequence[Tensor],
    whole: Sequence[int],
    real: Sequence[float],
    text: str,
    wanted: str,
    grad_lse: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """The gradients of q, k, v, and of the options that `wanted` names, in its order."""
    options = _decoded(tensors, whole, real, text)
    for name in (*_OTHERS, "out"):  # of forward
        options.pop(name, None)
    names = tensor_names(options)
    others = [options.pop(name) for name in names]
    learned = names_in(wanted)
    requested = [name in INPUTS or name in learned for name in (*INPUTS, *names)]
    found: dict[str, Any] = dict(
        zip((*INPUTS, *names), gradients(names, options, requested, grad_o, grad_lse, q, k, v, *others, o, lse))
    )
    return found["q"], found["k"], found["v"], [found[name] for name in learned]


def _backward_without_memory(
    grad_o: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    tensors: Sequence[Tensor],
    whole: Sequence[int],
    real: Sequence[float],
    text: str,
    wanted: str,
    grad_lse: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    options = decode(tensors, whole, real, text)
    others = {"lse": lse, "grad_o": grad_o, "grad_lse": grad_lse}
    refuse_devices({"q": q, "k": k, "v": v, "o": o, **others, **options})
    learned = [options[name] for name in names_in(wanted)]
    of_q, of_k, of_v, *of_options = [tensor.new_empty(tensor.shape) for tensor in (q, k, v, *learned)]
    return of_q, of_k, of_v, of_options


def refuse_devices(named: dict[str, Any]) -> None:
    """PyTorch calls this even if only one tensor has no memory, and expects results on the others' device."""
    device = named["q"].device
    for name, tensor in named.items():
        if isinstance(tensor, Tensor) and tensor.device != device:
            raise invalid(
                f"{name_for_messages(name, named)} is on {tensor.device} and q on {device}: all tensors of a call must "
                "be on one device"
            )


def names_in(wanted: str) -> list[str]:
    return wanted.split(",") if wanted else []


def nothing(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return like.new_empty(0, dtype=dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, tensors, ctx.whole, ctx.real, ctx.text = inputs
    o, lse, *others = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*others)
    ctx.save_for_backward(q, k, v, o, lse, *tensors)


def _backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    q, k, v, o, lse, *tensors = ctx.saved_tensors
    # PyTorch treats an empty list as a list of tensors, and expects a list of gradients.
    of_numbers: list[Any] = [None if numbers else [] for numbers in (ctx.whole, ctx.real)]
    if grad_o is None and grad_lse is None:
        return None, None, None, [None] * len(tensors), *of_numbers, None
    names = tensor_names(decode(tensors, ctx.whole, ctx.real, ctx.text))
    learned = learned_of(names, ctx.needs_input_grad[3])
    encoded = tensors, ctx.whole, ctx.real, ctx.text
    grad_o = torch.zeros_like(o) if grad_o is None else grad_o
    *found, others = backward_op(grad_o, q, k, v, o, lse, *encoded, ",".join(learned), grad_lse)
    of_names = dict(zip(learned, others))
    of_tensors = [*map(of_names.get, names), *[None] * (len(tensors) - len(names))]
    return *found, of_tensors, *of_numbers, None


def _refuse(*_: Any) -> Any:
    raise second_derivative()


torch.library.impl(FORWARD, _DEVICES, _run_forward)
torch.library.impl(BACKWARD, _DEVICES, _run_backward)
torch.library.register_fake(FORWARD, _forward_without_memory)
torch.library.register_fake(BACKWARD, _backward_without_memory)
torch.library.register_autograd(FORWARD, _backward, setup_context=_setup)
torch.library.register_autograd(BACKWARD, _refuse)
torch.library.register_vmap(FORWARD, forward_rule(attention_op, _forward_without_memory))
torch.library.register_vmap(BACKWARD, each_rule(backward_op, _backward_without_memory))
