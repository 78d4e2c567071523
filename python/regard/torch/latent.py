"""Latent attention and its cache, where v is the first columns of k: forward alone, outside of graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..call import run_call
from ..errors import RefusedError
from ..kv_cache import refuse_no_values
from .profiling import FORWARD, is_profiled, shown
from .tensors import bare, is_eager, refuse_types, written


def latent_attention(q: Tensor, k: Tensor, lse: Any, dropout_mask: Any, options: dict[str, Any]) -> Any:
    """`attention` with v=None."""
    refuse_no_values(options)
    appends = options.get("k_new") is not None
    if appends:
        refuse_types(k_new=options["k_new"])
    _refuse(q, q, k, *options.values())
    outputs = {"lse": lse, "dropout_mask": dropout_mask}
    if "out" in options:
        out = options.pop("out")
        outputs["out" if isinstance(out, str) else "o"] = out
    options = {name: bare(option) for name, option in options.items()}
    run = shown(run_call, FORWARD, q, k, k) if is_profiled() else run_call
    results = run("fwd", {"q": bare(q), "k": bare(k)}, options, outputs)
    written(*outputs.values())
    if appends:
        written(k, options.get("k_rope"))
    return results


def latent_append(k: Tensor, k_new: Tensor, options: dict[str, Any]) -> None:
    """`append` with v=None and v_new=None."""
    refuse_types(k=k, k_new=k_new)
    _refuse(k_new, k, k_new, options.get("k_rope"))
    run_call("append", {"k": bare(k), "k_new": bare(k_new)}, {name: bare(x) for name, x in options.items()}, {})
    written(k, options.get("k_rope"))


def _refuse(leader: Tensor, *given: Any) -> None:
    tensors = [tensor for tensor in given if isinstance(tensor, Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RefusedError(
            "latent attention (v=None) has no gradients: call it under torch.no_grad(), or pass v, k[..., :dv], as a "
            "tensor of its own"
        )
    if not is_eager(leader):
        raise RefusedError(
            "latent attention (v=None) is not recorded where PyTorch compiles, traces or transforms: call it outside, "
            "or pass v, k[..., :dv], as a tensor of its own"
        )
