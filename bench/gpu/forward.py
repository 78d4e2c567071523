#!/usr/bin/env python3
"""Forward on an NVIDIA GPU, compared with cuDNN and FlashAttention-2 (PyTorch's SDPA) and FlashAttention-3; on an AMD
GPU with AOTriton (PyTorch's SDPA), AITER, CK and Triton, as far as they are installed.

All contestants take turns in one process on the same tensors, [b, s, h, d] in memory, with a cold L2 cache.
FlashAttention-3 takes part if --fa3 names the unpacked wheel `fa3-fwd`. Outputs are compared before anything is
timed. Writes a line of JSON per cell to bench/results/gpu-<GPU>-<date>.jsonl, or amd-<GPU>-<date>.jsonl;
docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import regard.torch
from bench.gpu import amd_peers
from bench.gpu.cells import Cell, cases, grid
from bench.gpu.contestants import BACKENDS, HIP, TARGET, Call, offsets, sdpa, tensors, varlen, workspace_of
from bench.gpu.lines import write_lines
from bench.gpu.timing import interleaved
from bench.shared.empty_function import Empty

# Between the outputs of two contestants: both round weights to bf16, or to 8 bits, which changes a result by some units
# in the last place.
MOST_DIFFERENCE = {"bf16": 0.02, "fp8": 0.25}


def of_regard(cell: Cell, q: Any, k: Any, v: Any, family: str | None) -> tuple[Call, Any]:
    plan = regard.plan(cell.problem, target=TARGET, family=family)
    plan.prepare()
    o = torch.empty(*q.shape[:-1], cell.dv, dtype=torch.bfloat16, device="cuda")
    given = {"q": q, "k": k, "v": v, "o": o, **varlen(cell), "workspace": workspace_of(plan)}
    stream = torch.cuda.current_stream().cuda_stream
    return lambda: plan.run(**given, stream=stream), o


def of_fa3(cell: Cell, q: Any, k: Any, v: Any) -> Call | None:
    if cell.window >= 0 or not hasattr(torch.ops.fa3_fwd, "fwd"):
        return None
    scale = 1 / math.sqrt(cell.d)
    inputs: list[Any] = [None] * 20
    if cell.lengths:
        inputs[4] = inputs[5] = offsets(cell)
        inputs[9] = inputs[10] = max(cell.lengths)
    options = (scale, cell.causal, -1, -1, 0, cell.softcap, True, None, 0, None, 0)
    return lambda: torch.ops.fa3_fwd.fwd(q, k, v, *inputs, *options)[0]


def difference(a: Any, b: Any) -> float:
    return float((a.float() - b.float()).abs().max())


def measure(cell: Cell, families: list[str], milliseconds: float) -> dict[str, Any]:
    q, k, v = tensors(cell)
    calls: dict[str, Call] = {}
    refused = {}
    outputs = {}
    for family in families:
        name = f"regard {family}".strip()
        try:
            calls[name], outputs[name] = of_regard(cell, q, k, v, family or None)
        except regard.RegardError as error:
            refused[name] = str(error)
    peers = {
        **{name: sdpa(cell, q, k, v, backend) for name, backend in BACKENDS.items()},
        "fa3": of_fa3(cell, q, k, v),
        **amd_peers.calls(cell, lambda compute: functools.partial(compute, q, k, v), refused),
    }
    calls.update({name: call for name, call in peers.items() if call})
    reference = next((call() for name, call in calls.items() if name in peers), None)
    differences = {}
    for name, o in outputs.items():
        calls[name]()
        if reference is not None:
            differences[name] = difference(o, reference)
            if not differences[name] <= MOST_DIFFERENCE[cell.dtype]:
                raise SystemExit(f"{cell.name}: {name} differs from a peer by {differences[name]}")
    times = interleaved(calls, milliseconds)
    tflops = {name: cell.flops / statistics.median(samples) / 1e9 for name, samples in times.items()}
    line: dict[str, Any] = {
        "cell": cell.name,
        "problem": cell.problem,
        "goal": cell.goal,
        "tflops": {name: round(value, 1) for name, value in tflops.items()},
        "samples_ms": {name: [round(value, 5) for value in samples] for name, samples in times.items()},
        "differences": differences,
        "refused": refused,
    }
    if "regard" in tflops and cell.peer in tflops:
        over = tflops["regard"] / tflops[cell.peer]
        line[f"over_{cell.peer}"] = round(over, 4)
        if cell.goal:
            line["of_goal"] = round(over / cell.goal, 4)
    line |= amd_peers.ratios(tflops)
    return line


def host_times() -> dict[str, Any]:
    """Host microseconds per call without waiting: a tiny problem, enqueued again and again, in turns."""
    cell = Cell("host", "host", 1, 1, 1, 64, 64, 64, 64)
    q, k, v = tensors(cell)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    run, _ = of_regard(cell, q, k, v, None)
    theirs = torch.nn.functional.scaled_dot_product_attention
    calls: dict[str, Call | None] = {
        "regard plan.run": run,
        "regard.attention": lambda: regard.attention(q, k, v),
        "regard.torch.attention": lambda: regard.torch.attention(q, k, v),
        "operator": lambda: torch.ops.regard.attention(q, k, v, [], [], [], "{}"),
        "sdpa": lambda: theirs(q, k, v),
        "fa3": of_fa3(cell, q, k, v),
        "recorded: regard.torch.attention": lambda: regard.torch.attention(*leaves),
        "recorded: sdpa": lambda: theirs(*leaves),
        "recorded: empty function": lambda: Empty.apply(*leaves),
    }
    samples: dict[str, list[float]] = {name: [] for name, call in calls.items() if call is not None}
    for _ in range(15):
        for name, times in samples.items():
            call = calls[name]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()  # type: ignore[misc]
            times.append((time.perf_counter() - start) / 200 * 1e6)
    return {
        "cell": "host us per call",
        "host_us": {name: round(statistics.median(x), 2) for name, x in samples.items()},
    }


def from_c(program: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cells",
        default="",
        metavar="WORDS",
        help="only cells whose name has all words: 'd=128 full'; host: only the time of the host",
    )
    parser.add_argument(
        "--milliseconds", type=float, default=50, help="that count of each contestant in each round of a cell"
    )
    parser.add_argument(
        "--families",
        default="" if HIP else ",portable_forward",
        help="of Regard, by commas, by default its choice and the portable kernel",
    )
    parser.add_argument("--fa3", type=Path, help="folder of the unpacked wheel fa3-fwd")
    parser.add_argument("--launch", type=Path, help="the program bench_launch (bench/gpu/launch.cpp): adds its line")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    if options.fa3:
        torch.ops.load_library(str(next(options.fa3.glob("fa3_fwd/_C*.so"))))
    words = options.cells.split()
    only_host = words == ["host"]
    cells = [cell for cell in grid() + cases() if all(word in cell.name.split() for word in words)]
    if not cells and not only_host:
        print(f"no cell has all of the words '{options.cells}'", file=sys.stderr)
        return 2
    measurements: list[tuple[str, Call]] = [("host", host_times)] if only_host or not words else []
    if options.launch:
        measurements.append(("host, from C", functools.partial(from_c, options.launch)))
    families = options.families.split(",")
    measurements += [(cell.name, functools.partial(measure, cell, families, options.milliseconds)) for cell in cells]
    write_lines("hip" if HIP else "gpu", measurements, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
