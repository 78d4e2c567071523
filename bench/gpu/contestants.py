"""Contestants of the GPU benchmarks: the tensors of a cell, and PyTorch's own attention on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from bench.gpu.cells import Cell

Call = Callable[[], Any]
DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
HIP = torch.version.hip is not None  # PyTorch calls the devices "cuda" there too
TARGET = "hip" if HIP else "cuda"
BACKENDS = (
    {"aotriton": SDPBackend.FLASH_ATTENTION}
    if HIP
    else {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
)


def tensors(cell: Cell) -> tuple[Any, Any, Any]:
    """q, k and v, [b, s, h, d] or, packed, [t, h, d]."""

    def make(s: int, h: int, d: int) -> Any:
        rows = (sum(cell.lengths),) if cell.lengths else (cell.b, s)
        return torch.randn(*rows, h, d, dtype=torch.bfloat16, device="cuda").to(DTYPES[cell.dtype])

    torch.manual_seed(0)
    return make(cell.sq, cell.hq, cell.d), make(cell.sk, cell.hk, cell.d), make(cell.sk, cell.hk, cell.dv)


def offsets(cell: Cell) -> Any:
    """The offsets of packed sequences, up to the end of the last one."""
    starts = [0, *itertools.accumulate(cell.lengths)]
    return torch.tensor(starts, dtype=torch.int32, device="cuda") if cell.lengths else None


def varlen(cell: Cell) -> dict[str, Any]:
    """The arguments of a plan's run for packed sequences."""
    starts = offsets(cell)
    return {} if starts is None else {"offsets_q": starts, "offsets_k": starts}


def workspace_of(plan: Any) -> Any:
    return torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")


def sdpa(cell: Cell, q: Any, k: Any, v: Any, backend: SDPBackend) -> Call | None:
    """None if this backend does not support the cell."""
    if cell.window >= 0 or cell.lengths or cell.softcap or cell.dtype == "fp8":
        return None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    square = cell.sq == cell.sk
    mask = None if square or not cell.causal else causal_lower_right(cell.sq, cell.sk)

    def call() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=cell.causal and square, enable_gqa=cell.hq != cell.hk
            ).transpose(1, 2)

    try:
        call()
    except RuntimeError:
        return None
    return call
