"""FlashInfer's arguments as options of Regard."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..torch.tensors import refuse_without_strides
from ..words import quote

LOG2E = 1 / math.log(2)  # FlashInfer's log-sum-exp has base 2

_TYPES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8_e5m2",
}
_ITEMS = "it scores several items in one sequence: give custom_mask instead"
_ONLY_NVFP4 = "it is for nvfp4 caches, and caches here have 16 or 8 bits (fp8): leave it out"
_CUTLASS = "it is for backend='cutlass', and plan() already has its lists: leave it out"
_PROFILER = "it is FlashInfer's profiler: leave it out, and use PyTorch's"
_VARIANT = "it chooses among FlashInfer's kernels: leave it out"
_OF_HEADS = "this function takes no factors for each head: call regard.torch.attention with descale_q, _k and _v"
_WHY_REFUSED = {
    "args": "arguments after the cache are those of custom kernels: give q_scale, k_scale and v_scale by name",
    "ckv_scale_arr": "it has a factor for each 128 columns of a row: give ckv_scale, one for the tensor",
    "deprecated_positional_args": "arguments after page_size are taken only by name",
    "jit_args": "they compile other kernels of FlashInfer: leave them out",
    "jit_kwargs": "they compile other kernels of FlashInfer: leave them out",
    "kv_cache_sf": _ONLY_NVFP4,
    "kv_len": _CUTLASS,
    "max_item_len_ptr": _ITEMS,
    "o_indptr": "O has the rows of Q here: leave it out",
    "o_scale": "O is not quantised here: leave it out",
    "page_table": _CUTLASS,
    "prefix_len_ptr": _ITEMS,
    "profiler_buffer": _PROFILER,
    "scale_k": _OF_HEADS,
    "scale_q": _OF_HEADS,
    "scale_v": _OF_HEADS,
    "skip_softmax_threshold_scale_factor": "it skips keys, and here every visible key counts: leave it out",
    "token_pos_in_items_len": _ITEMS,
    "token_pos_in_items_ptr": _ITEMS,
    "use_fp16_softmax": _VARIANT,
    "use_profiler": _PROFILER,
    "uses_spcompress": _VARIANT,
    "v_indptr": "V has the rows of K here: leave it out",
    "window_right": "queries of decode do not see later keys: leave it at 0",
}


def refuse(**given: Any) -> None:
    """Refuses arguments that nothing here corresponds to, if they are given."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, (bool, int, tuple)) and not value):
            raise RefusedError(f"{name} is given, and {_WHY_REFUSED[name]}")


def refuse_other_backends(backend: Any) -> None:
    if not isinstance(backend, str) or backend not in ("auto", "fa2", "fa3"):
        raise RefusedError(
            f"backend is {quote(backend)}; it must be 'auto', 'fa2' or 'fa3', as the others have arguments for "
            "kernels of FlashInfer"
        )


def heads_first(kv_layout: Any) -> bool:
    """Whether heads come before the rows of a page."""
    if isinstance(kv_layout, str) and kv_layout in ("NHD", "HND"):
        return kv_layout == "HND"
    raise invalid(f"kv_layout is {quote(kv_layout)}; it must be 'NHD' or 'HND'")


def type_of(name: str, value: Any) -> torch.dtype:
    """A type of elements, from a torch.dtype or its name."""
    found = getattr(torch, value, None) if isinstance(value, str) else value
    if isinstance(found, torch.dtype) and found in _TYPES:
        return found
    raise invalid(f"{name} is {found if isinstance(found, torch.dtype) else quote(value)}; it must be {_KNOWN}")


_KNOWN = ", ".join(str(dtype).rpartition(".")[2] for dtype in _TYPES) + ", or the torch.dtype"


def word_of(o_type: torch.dtype, q_type: torch.dtype) -> dict[str, str]:
    """The type of O, where it is not that of Q anyway."""
    return {} if o_type == q_type and q_type.itemsize > 1 else {"out": _TYPES[o_type]}


def integers(name: str, value: Any) -> Tensor:
    """A list of int32."""
    refuse_without_strides(**{name: value})
    if value.dtype != torch.int32 or value.dim() != 1:
        raise invalid(f"{name} is {value.dtype} of shape {list(value.shape)}; it must be one list of torch.int32")
    found: Tensor = value
    return found
