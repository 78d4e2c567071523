#!/usr/bin/env python3
"""Forward on an NVIDIA GPU beside cuDNN and FlashAttention-2 (PyTorch's SDPA) and FlashAttention-3.

All contestants take turns in one process on the same tensors, [b, s, h, d] in memory, with a cold second-level cache.
FlashAttention-3 takes part where --fa3 names the unpacked wheel `fa3-fwd`. Outputs are compared before anything is
timed. Writes a line of JSON per cell to bench/results/gpu-<GPU>-<date>.jsonl; docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

import regard.torch
from bench.gpu.cells import Cell, cases, grid
from bench.gpu.timing import interleaved
from bench.shared import machine, results
from bench.shared.empty_function import Empty
from bench.shared.progress import counted

Call = Callable[[], Any]
# Of an output against another contestant's: both round weights to bf16, or to 8 bits, which moves a result by some
# units in its last place.
MOST_DIFFERENCE = {"bf16": 0.02, "fp8": 0.25}
DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def tensors(cell: Cell) -> tuple[Any, Any, Any]:
    def make(s: int, h: int, d: int) -> Any:
        rows = (sum(cell.lengths),) if cell.lengths else (cell.b, s)
        return torch.randn(*rows, h, d, dtype=torch.bfloat16, device="cuda").to(DTYPES[cell.dtype])

    torch.manual_seed(0)
    return make(cell.sq, cell.hq, cell.d), make(cell.sk, cell.hk, cell.d), make(cell.sk, cell.hk, cell.dv)


def offsets(cell: Cell) -> Any:
    """Where packed sequences begin, and the last one ends."""
    starts = [0, *itertools.accumulate(cell.lengths)]
    return torch.tensor(starts, dtype=torch.int32, device="cuda") if cell.lengths else None


def of_regard(cell: Cell, q: Any, k: Any, v: Any, family: str | None) -> tuple[Call, Any]:
    plan = regard.plan(cell.problem, target="cuda", family=family)
    plan.prepare()
    o = torch.empty(*q.shape[:-1], cell.dv, dtype=torch.bfloat16, device="cuda")
    workspace = torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    starts = offsets(cell)
    packed = {} if starts is None else {"offsets_q": starts, "offsets_k": starts}
    return lambda: plan.run(q=q, k=k, v=v, o=o, **packed, workspace=workspace, stream=stream), o


def of_sdpa(cell: Cell, q: Any, k: Any, v: Any, backend: SDPBackend) -> Call | None:
    if cell.window >= 0 or cell.lengths or cell.softcap or cell.dtype == "fp8":
        return None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    gqa = cell.hq != cell.hk
    square = cell.sq == cell.sk
    mask = None if square or not cell.causal else causal_lower_right(cell.sq, cell.sk)

    def call() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=cell.causal and square, enable_gqa=gqa
            ).transpose(1, 2)

    try:
        call()
    except RuntimeError:
        return None  # this backend does not take it
    return call


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
        "cudnn": of_sdpa(cell, q, k, v, SDPBackend.CUDNN_ATTENTION),
        "fa2": of_sdpa(cell, q, k, v, SDPBackend.FLASH_ATTENTION),
        "fa3": of_fa3(cell, q, k, v),
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
    return line


def host_times() -> dict[str, Any]:
    """Microseconds of the host per call, nothing waited for: a tiny problem, enqueued again and again, in turns."""
    cell = Cell("host", "host", 1, 1, 1, 64, 64, 64, 64)
    q, k, v = tensors(cell)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    run, _ = of_regard(cell, q, k, v, None)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    calls: dict[str, Call | None] = {
        "regard plan.run": run,
        "regard.attention": lambda: regard.attention(q, k, v),
        "regard.torch.attention": lambda: regard.torch.attention(q, k, v),
        "operator": lambda: torch.ops.regard.attention(q, k, v, [], [], [], "{}"),
        "sdpa": lambda: sdpa(q, k, v),
        "fa3": of_fa3(cell, q, k, v),
        "recorded: regard.torch.attention": lambda: regard.torch.attention(*leaves),
        "recorded: sdpa": lambda: sdpa(*leaves),
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


def table(line: dict[str, Any]) -> str:
    figures = "  ".join(f"{name} {value:6.1f}" for name, value in line.get("tflops", {}).items())
    goal = f"  of goal {line['of_goal']:.3f}" if "of_goal" in line else ""
    ratios = [f"  over {peer} {line[f'over_{peer}']:.3f}" for peer in ("cudnn", "fa3") if f"over_{peer}" in line]
    ratio = "".join(ratios)
    return f"{line['cell']:28} {figures}{ratio}{goal}{line.get('host_us', line.get('host_ns', ''))}"


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
        default=",portable_forward",
        help="of Regard, by commas, by default its choice and the portable kernel",
    )
    parser.add_argument("--fa3", type=Path, help="folder of the unpacked wheel fa3-fwd")
    parser.add_argument("--launch", type=Path, help="the program bench_launch (bench/gpu/launch.cpp): adds its line")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    if options.fa3:
        torch.ops.load_library(str(next(options.fa3.glob("fa3_fwd/_C*.so"))))
    origin = {"series": "gpu", **machine.origin(torch.cuda.get_device_name())}
    file = f"gpu-{machine.slug(origin['machine'])}-{origin['date']}.jsonl"
    out = options.out or results.BENCH / file
    words = options.cells.split()
    only_host = words == ["host"]
    cells = [cell for cell in grid() + cases() if all(word in cell.name.split() for word in words)]
    if not cells and not only_host:
        print(f"no cell has all of the words '{options.cells}'", file=sys.stderr)
        return 2
    out.parent.mkdir(parents=True, exist_ok=True)
    measurements: list[tuple[str, Call]] = [("host", host_times)] if only_host or not words else []
    if options.launch:
        measurements.append(("host, from C", functools.partial(from_c, options.launch)))
    families = options.families.split(",")
    measurements += [(cell.name, functools.partial(measure, cell, families, options.milliseconds)) for cell in cells]
    with out.open("w") as file:
        for _, measurement in counted(measurements, lambda named: named[0]):
            line = measurement()
            file.write(json.dumps({**line, **origin}) + "\n")
            file.flush()
            print(table(line), flush=True)
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    of_goal = [line["of_goal"] for line in lines if "of_goal" in line]
    if of_goal:
        mean = statistics.geometric_mean(of_goal)
        print(f"of goal: least {min(of_goal):.3f}, geometric mean {mean:.3f} of {len(of_goal)} cells -> {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
