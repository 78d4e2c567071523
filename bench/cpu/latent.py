#!/usr/bin/env python3
"""Compares decode of 16 heads on a latent cache (MLA, 576/512, bf16) with a plain read of it, and with a bf16 product.

Calls take turns; ratios are medians over the rounds. Writes a line of JSON per cell to
bench/results/latent-<machine>-<date>.jsonl: ms by contestant; `over_read`, the time over that of the read;
`of_product`, the rate over that of a product of 2048 x 2048 matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

HEADS, D, DV, N = 16, 576, 512, 2048
TURN = Turn(pause=0, ms=20)


@dataclass(frozen=True)
class Cell:
    threads: int
    b: int
    keys: int

    @property
    def name(self) -> str:
        return f"latent threads{self.threads} b{self.b} s{self.keys}"


def cells(quick: bool, threads: int) -> list[Cell]:
    sizes = [(1, 256)] if quick else [(1, 65536), (16, 4096)]
    return [Cell(count, *size) for count in sorted({1, threads}) for size in sizes]


def call_of(cell: Cell, words: str) -> tuple[Callable[[], Any], Any]:
    """The call, and its K."""
    import torch

    import regard

    problem = regard.Problem(
        f"fwd bf16 b={cell.b} hq={HEADS} hk=1 sq=1 sk={cell.keys} d={D} dv={DV} latent lengths {words}"
    )
    plan = regard.plan(problem, threads=cell.threads)
    plan.prepare()
    tensors = {}
    for name, spec in problem.tensors.items():
        shape = tuple(spec.shape)
        if name == "page_table":
            tensors[name] = torch.randperm(shape[0] * shape[1], dtype=torch.int32).reshape(shape)
        elif name in ("lengths_q", "lengths_k"):
            tensors[name] = torch.full(shape, 1 if name == "lengths_q" else cell.keys, dtype=torch.int32)
        else:
            tensors[name] = torch.randn(shape).to(torch.bfloat16)
    return lambda: plan.run(**tensors), tensors["k"]


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(cell.threads)
    torch.manual_seed(0)
    paged, k = call_of(cell, "paged=64")
    read = k.reshape(-1).view(torch.float32)
    x, y = (torch.randn(N, N).bfloat16() for _ in range(2))
    z = torch.empty_like(x)
    calls = {
        "dense": call_of(cell, "")[0],
        "page64": paged,
        "read": read.sum,
        "product": lambda: torch.mm(x, y, out=z),
    }
    times = interleaved(calls, cell.threads, run.options.seconds, run.rounds, turn=TURN)
    ours = ("dense", "page64")
    share = 2.0 * cell.b * cell.keys * HEADS * (D + DV) / (2.0 * N**3)  # of the product's FLOPs
    over_read = {name: round(times.ratio(name, "read"), 3) for name in ours}
    of_product = {name: round(share * times.ratio("product", name), 3) for name in ours}
    print(f"    {times.median('page64'):.2f} ms; of a read's time {over_read}; of the product {of_product}", flush=True)
    return [
        {
            "cell": cell.name,
            "threads": cell.threads,
            "ms": {name: round(times.median(name), 4) for name in calls},
            "over_read": over_read,
            "of_product": of_product,
            "rounds": times.rounds,
            "others": round(times.others, 3),
        }
    ]


if __name__ == "__main__":
    this = Run("latent", __doc__, seconds=4)
    sys.exit(this.each(cells(this.quick, this.threads), lambda cell: measure(cell, this)))
