"""Peers on an AMD GPU, as far as they are installed: AITER, CK and Triton. All have functions like flash_attn's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bench.gpu.cells import Cell
from bench.gpu.contestants import HIP, Call, offsets

# Modules with flash_attn_func and flash_attn_varlen_func; of several, the first one that is installed.
MODULES = {
    "aiter": ("aiter",),  # its choice of assembly and CK
    "ck": ("flash_attn",),
    "triton": ("aiter.ops.triton.attention.mha", "aiter.ops.triton.mha"),
}


def _first_of(names: tuple[str, ...]) -> ModuleType:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    return importlib.import_module(names[-1])


def _check_is_ck(module: ModuleType) -> None:
    if getattr(getattr(module, "flash_attn_interface", None), "USE_TRITON_ROCM", False):
        raise ImportError("flash_attn computes with Triton here; unset FLASH_ATTENTION_TRITON_AMD_ENABLE to measure CK")


@functools.cache
def found() -> dict[str, ModuleType]:
    """The peers' modules by name. For each one that is missing, a printed line says why."""
    modules = {}
    for name, places in MODULES.items() if HIP else ():
        try:
            module = _first_of(places)
            if name == "ck":
                _check_is_ck(module)
            modules[name] = module
        except Exception as error:  # importing them can compile, or look for a GPU
            print(f"{name} is not measured: {error}", flush=True)
    return modules


def attention(module: ModuleType, cell: Cell) -> Callable[..., Any]:
    """A function of q, k and v; ValueError if the module does not have the cell."""
    if cell.softcap or cell.dtype == "fp8":
        raise ValueError("not measured with softcap or fp8")
    options: dict[str, Any] = {"causal": cell.causal}
    if cell.window >= 0:
        options["window_size"] = (cell.window, 0)
    if cell.deterministic:
        options["deterministic"] = True
    starts, longest = offsets(cell), max(cell.lengths, default=0)

    def compute(q: Any, k: Any, v: Any) -> Any:
        if starts is None:
            result = module.flash_attn_func(q, k, v, **options)
        else:
            result = module.flash_attn_varlen_func(q, k, v, starts, starts, longest, longest, **options)
        return result[0] if isinstance(result, tuple) else result

    return compute


def calls(cell: Cell, call_of: Callable[[Callable[..., Any]], Call], refused: dict[str, str]) -> dict[str, Call]:
    """The calls that `call_of` makes of each peer's function. A peer that fails in its first call is not measured, and
    `refused` says why."""
    made = {}
    for name, module in found().items():
        try:
            call = call_of(attention(module, cell))
            call()
            made[name] = call
        except Exception as error:  # each has its own ways to refuse a problem
            refused[name] = str(error) or type(error).__name__
    return made


def ratios(tflops: dict[str, float]) -> dict[str, float]:
    """Regard over each of them."""
    ours = tflops.get("regard")
    return {f"over_{name}": round(ours / tflops[name], 4) for name in MODULES if ours and name in tflops}
