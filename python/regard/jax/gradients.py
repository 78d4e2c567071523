"""Reverse-mode differentiation: forward keeps O and LSE, and backward is a separate call."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from ..errors import RefusedError
from ..functions import index_of, is_captured, names_of
from .batching import batched
from .call import Call
from .run import Arrays

_WITHOUT = ("alibi", "descale_q", "descale_k", "descale_v", "rope_cos", "rope_sin")  # floating point, no gradient


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(call: Call, *arrays: jax.Array) -> Arrays:
    results: Arrays = batched(call)(*arrays)
    return results


def _forward(call: Call, *arrays: Any) -> tuple[Arrays, Any]:
    requested = {name: None for name, array in zip(call.names, arrays, strict=True) if array.perturbed}
    if requested and "v" not in call.names:
        raise RefusedError(
            "latent attention (v=None) has no gradients: pass jax.lax.stop_gradient of its arrays, or v, k[..., :dv]"
        )
    for name in _WITHOUT:
        if name in requested:
            raise RefusedError(f"{name} has no gradient: pass jax.lax.stop_gradient({name})")
    values = tuple(array.value for array in arrays)
    with_lse = call._replace(requested=("lse", *[name for name in call.requested if name != "lse"]))
    o, lse, *rest = attend(with_lse, *values)
    results = (o, *([lse] if "lse" in call.requested else []), *rest)
    return results, (values, o, lse, requested)


def _backward(call: Call, kept: Any, cotangents: Any) -> tuple[Any, ...]:
    arrays, o, lse, requested = kept
    grad_o, *others = [None if isinstance(other, SymbolicZero) else other for other in cotangents]
    grad_lse = others[0] if "lse" in call.requested else None
    if "row_max" in call.requested and others[-1] is not None:
        raise RefusedError("row_max has no gradient: use jax.lax.stop_gradient(row_max)")
    if grad_o is None and grad_lse is None:
        return (None,) * len(call.names)
    inputs = dict(zip(call.names, arrays, strict=True))
    rows = None
    if "bias" in requested:
        inputs["bias"], rows = jax.vjp(partial(_with_rows, _rows(call, inputs["q"])), inputs["bias"])
    inputs |= {"o": o, "lse": lse, "grad_o": jnp.zeros_like(o) if grad_o is None else grad_o}
    if grad_lse is not None:
        inputs["grad_lse"] = grad_lse
    options = tuple(option for option in call.options if option[0] not in ("splits", "batch_invariant"))
    learned = sorted((name for name in requested if is_captured(name)), key=index_of)
    if learned:
        of_indices = names_of(dict(options)["tensors"])
        options = (*options, ("grads", ",".join(of_indices[index_of(name)] for name in learned)))
    back = call._replace(
        pass_="bwd", names=tuple(inputs), options=options, requested=("grad_bias",) if "bias" in requested else ()
    )
    grad_q, grad_k, grad_v, *more = run_backward(back, *inputs.values())
    gradients = {"q": grad_q, "k": grad_k, "v": grad_v}
    if rows is not None:
        (gradients["bias"],) = rows(more.pop(0))
    if "sink" in inputs:
        gradients["sink"] = more.pop(0)
    gradients |= {name: gradient.astype(inputs[name].dtype) for name, gradient in zip(learned, more, strict=True)}
    return tuple(gradients.get(name) for name in call.names)


attend.defvjp(_forward, _backward, symbolic_zeros=True)


def _rows(call: Call, q: Any) -> int:
    size: int = dict(call.options)["sq"] if q.ndim == 3 else q.shape[call.layout.index("s")]
    return size


def _with_rows(sq: int, bias: jax.Array) -> jax.Array:
    """The gradient of a bias has a row for each query, even if the bias has one row for all of them."""
    return jnp.broadcast_to(bias, (*bias.shape[:2], sq, bias.shape[3]))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def run_backward(call: Call, *arrays: jax.Array) -> Arrays:
    results: Arrays = batched(call)(*arrays)
    return results


@run_backward.defjvp
def _refuse(call: Call, primals: Any, tangents: Any) -> Any:
    raise RefusedError("gradients of attention cannot be differentiated again: no kernel computes that")
