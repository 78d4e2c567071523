#!/usr/bin/env python3
"""Compares decode on KV caches: pages in any order with a dense cache, and a cache of int8 with one of bf16.

Calls take turns; a ratio is the median over the rounds. Writes a line of JSON per cell to
bench/results/cache-<machine>-<date>.jsonl and prints it: ms by contestant, and each one's ratio to the dense cache.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

HEADS = "hq=32 hk=8 sq=1 d=128"
TURN = Turn(pause=0, ms=20)
PAGES = (16, 1)


@dataclass(frozen=True)
class Cell:
    layout: str
    keys: int

    @property
    def name(self) -> str:
        return f"decode {self.layout} s{self.keys}"

    @property
    def problems(self) -> dict[str, str]:
        start = f"fwd bf16 b=1 {HEADS} sk={self.keys} layout={self.layout}"
        paged = {f"page{page}": f"{start} paged={page}" for page in PAGES}
        return {"dense": f"{start} cache=1", **paged, "int8": f"{start} cache=1 kv=int8 descale=tensor"}


def cells(quick: bool) -> list[Cell]:
    return [Cell(layout, keys) for layout in ("bshd", "bhsd") for keys in ((256,) if quick else (1024, 16384, 65536))]


def call_of(text: str, threads: int) -> Callable[[], Any]:
    import torch

    import regard

    problem = regard.Problem(text)
    plan = regard.plan(problem, threads=threads)
    plan.prepare()
    torch.manual_seed(0)
    tensors = {}
    for name, spec in problem.tensors.items():
        shape = tuple(spec.shape)
        if name == "page_table":
            tensors[name] = torch.randperm(shape[-1], dtype=torch.int32).reshape(shape)
        elif name == "cache_index":
            tensors[name] = torch.arange(shape[0], dtype=torch.int32)
        elif spec.dtype == "int8":
            tensors[name] = torch.randint(-127, 128, shape, dtype=torch.int8)
        elif spec.dtype == "fp32":  # factors
            tensors[name] = torch.full(shape, 1 / 40)
        else:
            tensors[name] = torch.randn(shape).to(torch.bfloat16)
    return lambda: plan.run(**tensors)


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    calls = {name: call_of(text, run.threads) for name, text in cell.problems.items()}
    times = interleaved(calls, run.threads, run.options.seconds, run.rounds, turn=TURN)
    ratios = {name: round(times.ratio(name, "dense"), 3) for name in calls if name != "dense"}
    print(f"    {times.median('dense'):.3f} ms dense; of its time: {ratios}", flush=True)
    ms = {name: round(times.median(name), 4) for name in calls}
    return [{"cell": cell.name, "threads": run.threads, "ms": ms, "ratio": ratios, "others": round(times.others, 3)}]


if __name__ == "__main__":
    this = Run("cache", __doc__, seconds=4)
    sys.exit(this.each(cells(this.quick), lambda cell: measure(cell, this)))
