"""Other libraries: how each computes a problem, or why it does not."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard

from .cell import Call, Cell

_SIZES = ("dtype", "b", "hq", "hk", "sq", "sk", "d", "dv")


class Unable(Exception):
    """Raised if a peer does not support a problem; the message says why."""


def _asks(cell: Cell) -> dict[str, Any]:
    """The fields in which a problem differs from the plain one of the same size."""
    fields = cell.fields
    words = " ".join(f"{name}={fields[name]}" for name in _SIZES if name != "dtype")
    plain = json.loads(regard.Problem(f"{fields['pass']} {fields['dtype']} {words}").json)
    return {name: value for name, value in fields.items() if value != plain[name]}


def _takes(cell: Cell, *names: str) -> dict[str, Any]:
    """The features requested, all of which the peer supports. LSE is computed anyway; the rest is memory layout."""
    asks = _asks(cell)
    for name, value in asks.items():
        if name not in (*names, "lse", "layout", "tq", "tk"):
            raise Unable(f"it does not take {name}" + ("" if value is True else f"={value}"))
    if cell.fields["dtype"].startswith("fp8"):
        raise Unable("it does not take 8-bit inputs")
    return asks


def _needs_gpu(cell: Cell) -> None:
    if cell.device == "cpu":
        raise Unable("it computes on GPUs alone: --target cuda")


def _arranged(cell: Cell, order: str) -> tuple[Any, Any]:
    """Functions from the problem's axis order to another one, and back."""
    layout = cell.fields["layout"]
    there, back = [layout.index(axis) for axis in order], [order.index(axis) for axis in layout]
    return (lambda x: x.permute(there)), (lambda x: x.permute(back))


def _recorded(cell: Cell, forward: Callable[..., Any]) -> Call:
    """A call of forward or, for backward, the gradients of its result, which autograd keeps."""
    names = ("q", "k", "v", "bias")[: 4 if "grad_bias" in cell.outputs else 3]
    if cell.fields["pass"] == "fwd":
        of = [cell.inputs[name] for name in names]
        return lambda: {"o": forward(*of)}
    leaves = [cell.inputs[name].clone().requires_grad_() for name in names]
    o = forward(*leaves)

    def backward() -> dict[str, Any]:
        gradients = torch.autograd.grad(o, leaves, cell.inputs["grad_o"], retain_graph=True)
        return {f"grad_{name}": gradient for name, gradient in zip(names, gradients)}

    return backward


def _sdpa(cell: Cell, backend: Any = None) -> Call:
    asks, of = _takes(cell, "mask", "bias", "dbias", "scale"), cell.fields
    mask, causal = asks.get("mask"), False
    if mask not in (None, "causal", "causal_top_left"):
        raise Unable(f"it does not take mask={mask}, except as a tensor of all scores")
    if mask == "causal_top_left" or (mask == "causal" and of["sq"] == of["sk"]):
        causal = True
    diagonal = None
    if mask == "causal" and not causal and of["sq"] > 1:
        from torch.nn.attention.bias import causal_lower_right  # imports PyTorch's compiler, which takes seconds

        diagonal = causal_lower_right(of["sq"], of["sk"])
    bias = cell.inputs.get("bias")
    if "bias" in asks and bias is None:
        raise Unable(f"it does not take bias={asks['bias']}")
    if bias is not None and mask is not None:
        raise Unable("it does not take a bias together with a mask")
    there, back = _arranged(cell, "bhsd")

    def forward(q: Any, k: Any, v: Any, *leaf: Any) -> Any:
        scores = [*leaf, bias, diagonal]
        with sdpa_kernel(backend) if backend else nullcontext():
            o = torch.nn.functional.scaled_dot_product_attention(
                there(q),
                there(k),
                there(v),
                attn_mask=next((x for x in scores if x is not None), None),
                is_causal=causal,
                scale=of["scale"],
                enable_gqa=of["hq"] != of["hk"],
            )
        return back(o)

    return _recorded(cell, forward)


def _cudnn(cell: Cell) -> Call:
    _needs_gpu(cell)
    return _sdpa(cell, SDPBackend.CUDNN_ATTENTION)


def _flash_attn(cell: Cell) -> Call:
    library = _installed("flash_attn")
    _needs_gpu(cell)
    windows = ("mask", "window_left", "window_right")
    asks, of = _takes(cell, *windows, "varlen", "scale", "softcap", "bias", "deterministic"), cell.fields
    if of["mask"].endswith("top_left") and of["sq"] != of["sk"]:
        raise Unable("it aligns masks to the bottom-right diagonal")
    if "bias" in asks and "alibi" not in cell.inputs:
        raise Unable("it does not take a bias other than ALiBi")
    options = {
        "softmax_scale": of["scale"],
        "causal": of["mask"].startswith("causal"),
        "window_size": (of["window_left"], of["window_right"]),
        "softcap": of["softcap"],
        "alibi_slopes": cell.inputs.get("alibi"),
        "deterministic": of["deterministic"],
    }
    if of["varlen"]:
        sequences = [cell.inputs["offsets_q"], cell.inputs["offsets_k"], of["sq"], of["sk"]]
        return _recorded(cell, lambda q, k, v: library.flash_attn_varlen_func(q, k, v, *sequences, **options))
    there, back = _arranged(cell, "bshd")
    return _recorded(cell, lambda *of: back(library.flash_attn_func(*map(there, of), **options)))


def _installed(name: str) -> Any:
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        raise Unable(f"{name} cannot be imported: {error}") from error
    if "regard" in (getattr(library, "__file__", None) or "").split("/"):
        raise Unable(f"{name} is Regard's own here")
    return library


PEERS: dict[str, Callable[[Cell], Call]] = {"torch": _sdpa, "cudnn": _cudnn, "flash_attn": _flash_attn}
