#!/usr/bin/env python3
"""Backward on an NVIDIA GPU, compared with cuDNN and FlashAttention-2 (PyTorch's SDPA); on an AMD GPU with AOTriton
(PyTorch's SDPA), AITER, CK and Triton, as far as they are installed.

All contestants take turns in one process on the same tensors, [b, s, h, d] in memory, with a cold L2 cache. For
PyTorch, torch.autograd.grad of a retained result is timed; for Regard, the run of a plan. FlashAttention-4 takes part
with --fa4 if flash_attn.cute is installed. Gradients are compared before anything is timed. Each case runs in the same
rounds as the plain cell of the same size. Writes a line of JSON per cell to bench/results/backward-<GPU>-<date>.jsonl,
or amd-backward-<GPU>-<date>.jsonl; docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import regard
from bench.gpu import amd_peers
from bench.gpu.backward_cells import Beside, cases, grid, known_fa4, share_of_tiles
from bench.gpu.cells import Cell
from bench.gpu.contestants import BACKENDS, HIP, TARGET, Call, sdpa, tensors, varlen, workspace_of
from bench.gpu.lines import write_lines
from bench.gpu.timing import interleaved

# Between the gradients of two contestants, relative to the gradient's largest element: both round P and dS to bf16.
MOST_DIFFERENCE = 0.02


@dataclass
class Inputs:
    q: Any
    k: Any
    v: Any
    grad_o: Any
    o: Any  # from Regard's forward, as is lse
    lse: Any


def inputs(cell: Cell) -> Inputs:
    q, k, v = tensors(cell)
    grad_o = torch.randn(*q.shape[:-1], cell.dv, dtype=q.dtype, device="cuda")
    forward = replace(cell, backward=False, deterministic=False)
    plan = regard.plan(f"{forward.problem} lse", target=TARGET)
    o = torch.empty_like(grad_o)
    rows = (cell.hq, q.shape[0]) if cell.lengths else (cell.b, cell.hq, cell.sq)
    lse = torch.empty(*rows, dtype=torch.float32, device="cuda")
    plan.run(q=q, k=k, v=v, o=o, lse=lse, **varlen(cell), workspace=workspace_of(plan))
    return Inputs(q, k, v, grad_o, o, lse)


def of_regard(cell: Cell, of: Inputs, family: str | None) -> tuple[Call, str]:
    """The call, which returns the gradients, and the JSON of the plan."""
    plan = regard.plan(cell.problem, target=TARGET, family=family)
    plan.prepare()
    gradients = {f"grad_{name}": torch.empty_like(x) for name, x in (("q", of.q), ("k", of.k), ("v", of.v))}
    given = {**vars(of), **varlen(cell), **gradients, "workspace": workspace_of(plan)}
    stream = torch.cuda.current_stream().cuda_stream

    def call() -> Any:
        plan.run(**given, stream=stream)
        return tuple(gradients.values())

    return call, plan.json


def recorded(forward: Any, of: Inputs) -> Call:
    """A call that computes the gradients of a result recorded by autograd."""
    leaves = [x.detach().requires_grad_() for x in (of.q, of.k, of.v)]
    return functools.partial(torch.autograd.grad, forward(*leaves), leaves, of.grad_o, retain_graph=True)


def of_recorded(forward: Any, of: Inputs) -> Call | None:
    """None if there are no gradients."""
    try:
        call = recorded(forward, of)
        call()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return None
    return call


def of_sdpa(cell: Cell, of: Inputs, backend: Any) -> Call | None:
    def forward(q: Any, k: Any, v: Any) -> Any:
        if (call := sdpa(cell, q, k, v, backend)) is None:
            raise RuntimeError("PyTorch does not support the cell")
        return call()

    return None if cell.deterministic else of_recorded(forward, of)


def of_fa4(cell: Cell, of: Inputs) -> Call | None:
    from flash_attn.cute import flash_attn_func

    if cell.lengths:
        return None
    options = {"causal": cell.causal, "window_size": (cell.window, 0) if cell.window >= 0 else (None, None)}
    if cell.deterministic:
        options["deterministic"] = True

    def forward(*given: Any) -> Any:
        result = flash_attn_func(*given, **options)
        return result[0] if isinstance(result, tuple) else result

    return of_recorded(forward, of)


def difference(gradients: Any, others: Any) -> float:
    return max(
        float((a.float() - b.float()).abs().max() / b.float().abs().max())
        for a, b in zip(gradients, others, strict=True)
    )


def measure(item: Cell | Beside, families: list[str], fa4: bool, milliseconds: float) -> dict[str, Any]:
    cell = item.cell if isinstance(item, Beside) else item
    of = inputs(cell)
    calls: dict[str, Call] = {}
    refused, plans = {}, {}
    for family in families:
        name = f"regard {family}".strip()
        try:
            calls[name], plans[name] = of_regard(cell, of, family or None)
        except regard.RegardError as error:
            refused[name] = str(error)
    ours = list(calls)
    peers = {name: of_sdpa(cell, of, backend) for name, backend in BACKENDS.items()}
    if fa4:
        peers["fa4"] = of_fa4(cell, of)
    peers |= amd_peers.calls(cell, lambda compute: recorded(compute, of), refused)
    calls = {**{name: call for name, call in peers.items() if call}, **calls}
    differences = {}
    reference = next(iter(calls), "")
    for name in ours:
        expected = [x.clone() for x in calls[reference]()]
        differences[name] = difference(calls[name](), expected)
        if not differences[name] <= MOST_DIFFERENCE:
            raise SystemExit(f"{cell.name}: {name} differs from {reference} by {differences[name]}")
    flops = dict.fromkeys(calls, cell.flops)
    if isinstance(item, Beside) and "regard" in calls:
        calls["base"], _ = of_regard(item.base, inputs(item.base), None)
        flops["base"] = item.base.flops
    times = interleaved(calls, milliseconds)
    tflops = {name: flops[name] / statistics.median(samples) / 1e9 for name, samples in times.items()}
    line: dict[str, Any] = {
        "cell": cell.name,
        "problem": cell.problem,
        "tflops": {name: round(value, 1) for name, value in tflops.items()},
        "samples_ms": {name: [round(value, 5) for value in samples] for name, samples in times.items()},
        "differences": differences,
        "refused": refused,
        **ratios(item, tflops, plans.get("regard", "")),
        **amd_peers.ratios(tflops),
    }
    return line


def ratios(item: Cell | Beside, tflops: dict[str, float], plan: str) -> dict[str, float]:
    """For a grid cell the ratios to cuDNN and FlashAttention-4, for the portable kernel to FlashAttention-2, for a case
    to its base."""
    found: dict[str, float] = {}
    portable = tflops.get("regard portable_backward")
    if portable and "fa2" in tflops:
        found["over_fa2"] = round(portable / tflops["fa2"], 4)
    if "regard" in tflops and isinstance(item, Cell) and ("fa4" in tflops or "cudnn" in tflops):
        fa4 = tflops["fa4"] if "fa4" in tflops else tflops["cudnn"] * known_fa4(item)
        found["over_fa4"] = round(tflops["regard"] / fa4, 4)
    over, goal = ("base", item.goal) if isinstance(item, Beside) else ("cudnn", item.goal)
    if isinstance(item, Beside) and item.cell.window >= 0:
        goal *= share_of_tiles(item.cell, plan)
    if "regard" in tflops and over in tflops:
        ratio = tflops["regard"] / tflops[over]
        found |= {f"over_{over}": round(ratio, 4), "goal": round(goal, 4), "of_goal": round(ratio / goal, 4)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cells", default="", metavar="WORDS", help="only cells whose name has all words: 'd=128 full'"
    )
    parser.add_argument(
        "--milliseconds", type=float, default=50, help="that count of each contestant in each round of a cell"
    )
    parser.add_argument(
        "--families",
        default="" if HIP else ",portable_backward",
        help="of Regard, by commas, by default its choice and the portable kernel",
    )
    parser.add_argument("--fa4", action="store_true", help="FlashAttention-4 takes part, from flash_attn.cute")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    named = {cell.name: cell for cell in grid()} | {case.cell.name: case for case in cases()}
    chosen = {name: x for name, x in named.items() if all(word in name.split() for word in options.cells.split())}
    if not chosen:
        print(f"no cell has all of the words '{options.cells}'", file=sys.stderr)
        return 2
    how = options.families.split(","), options.fa4, options.milliseconds
    write_lines(
        "amd-backward" if HIP else "backward",
        [(name, functools.partial(measure, x, *how)) for name, x in chosen.items()],
        options.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
