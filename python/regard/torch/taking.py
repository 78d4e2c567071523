"""Which calls of scaled_dot_product_attention are computed here, as far as that is known before they run."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any

import torch
from torch import Tensor

from ..arrays import NAMES
from ..errors import InvalidError, RefusedError
from ..planning import plan
from .autocast import is_autocast
from .autograd import is_recorded
from .tensors import FLOATS, is_causal_bias, is_memory, is_traced

_GPU = "hip" if torch.version.hip else "cuda"  # the target of tensors whose device PyTorch calls "cuda"


def refusal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, recorded: bool = False
) -> str | None:
    """Why such a call is not computed here; None if it is, including its gradients if it is recorded. This has to be
    known before the call runs: graphs are made without a run, and when gradients are requested it is too late.

    recorded: the call is not recorded now, but backward repeats it and then records it.
    """
    named: dict[str, Any] = {"query": query, "key": key, "value": value}
    if mask is not None:
        named["attn_mask"] = mask
    for name, tensor in named.items():
        why = _refusal_of(name, tensor)
        if why is not None:
            return why
    if is_causal_bias(mask):
        mask = None
    if not all(tensor.dtype in FLOATS for tensor in (query, key, value)):
        return f"query, key and value are {query.dtype}, {key.dtype} and {value.dtype}; all must be 32-bit or 16-bit"
    if not query.dtype == key.dtype == value.dtype and not is_autocast(query):
        return f"query, key and value are {query.dtype}, {key.dtype} and {value.dtype}; they must be of one type"
    if query.device.type not in ("cpu", "cuda"):
        return f"query is on {query.device}; it must be on a CPU, or on a GPU of CUDA or ROCm"
    given = [key, value] if mask is None else [key, value, mask]
    if any(tensor.device != query.device for tensor in given):
        return "query, key, value and attn_mask are on different devices"
    if min(query.dim(), key.dim(), value.dim()) < 2:
        return "query, key and value must be [..., sequence, dimension]"
    recorded = recorded or is_recorded(query, key, value, {"bias": mask})
    heads = query.shape[-3] if query.dim() > 2 else 1
    sizes = index(heads), index(query.shape[-1]), index(value.shape[-1])  # as numbers, even if they were symbols
    of_mask = (None, False) if mask is None else (mask.dtype, recorded and mask.requires_grad)
    dropout = 0.0 if dropout_p == 0 else 0.5 if 0 < dropout_p < 1 else 1.0  # one value for all, as it may be a symbol
    pass_ = "bwd" if recorded else "fwd"
    why = refusal_of_plan(pass_, query.dtype, query.device.type, *sizes, dropout, *of_mask)
    return None if why is None else str(why)


def _refusal_of(name: str, tensor: Any) -> str | None:
    if not isinstance(tensor, Tensor):
        return f"{name} is not a tensor"
    if tensor.is_nested:
        return f"{name} is a nested tensor"
    if not (is_memory(tensor) or is_traced(tensor) or (name == "attn_mask" and is_causal_bias(tensor))):
        return f"{name} is a {type(tensor).__name__}, a subclass of Tensor with functions of its own"
    return None if tensor.layout == torch.strided else f"{name} has the layout {tensor.layout}"


def refusal_of_plan(*asked: Any) -> Any:
    return _planned(*asked)


# What torch.compiler.assume_constant_result does, without importing the compiler, which takes longer than PyTorch.
refusal_of_plan._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=1024)
def _planned(
    pass_: str,
    dtype: torch.dtype,
    device: str,
    heads: int,
    d: int,
    dv: int,
    dropout: float,
    mask: torch.dtype | None,
    learned: bool,
) -> str | None:
    words = ""
    if mask is not None:
        words = "bits" if mask == torch.bool else "bias=bh dbias" if learned else "bias=bh"
        if mask == torch.float32:
            words += " bias_type=fp32"
    if dropout:
        words += f" dropout={dropout}"
    word = next(word for word, name in NAMES.items() if getattr(torch, name) == dtype)
    try:
        plan(f"{pass_} {word} b=1 h={heads} s=1 d={d} dv={dv} {words}", _GPU if device == "cuda" else None)
    except (InvalidError, RefusedError) as error:
        return str(error)
    return None
