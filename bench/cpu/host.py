#!/usr/bin/env python3
"""Measures the overhead of a call with PyTorch tensors, on a problem of one row: regard.torch.attention, PyTorch's own
attention, the operator that compiled graphs hold, and a torch.autograd.Function that computes nothing.

Writes a line of JSON per cell to bench/results/host-<machine>-<date>.jsonl: microseconds by contestant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

TURN = Turn(pause=0, ms=20)
SHAPE = (1, 1, 1, 8)  # [b, s, h, d]


@dataclass(frozen=True)
class Cell:
    name: str
    recorded: bool = False  # q, k and v require gradients
    backward: bool = False


CELLS = (Cell("forward"), Cell("forward-recorded", recorded=True), Cell("forward-and-backward", True, True))


def contestants() -> dict[str, Callable[..., Any]]:
    import torch

    import regard.torch
    from bench.shared.empty_function import Empty

    return {
        "regard": regard.torch.attention,
        "sdpa": torch.nn.functional.scaled_dot_product_attention,
        "operator": lambda q, k, v: torch.ops.regard.attention(q, k, v, [], [], [], "{}")[0],
        "empty": Empty.apply,
    }


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    leaves = [torch.randn(SHAPE).requires_grad_(cell.recorded) for _ in range(3)]
    grad_o = torch.randn(SHAPE)

    def call(attention: Callable[..., Any]) -> Callable[[], Any]:
        if not cell.backward:
            return lambda: attention(*leaves)
        return lambda: torch.autograd.grad(attention(*leaves), leaves, grad_o)

    calls = {name: call(attention) for name, attention in contestants().items()}
    result = interleaved(calls, 1, run.options.seconds, run.rounds, turn=TURN)
    us = {name: round(1000 * result.median(name), 2) for name in calls}
    print("  " + ", ".join(f"{name} {value} us" for name, value in us.items()), flush=True)
    return [{"cell": cell.name, "threads": 1, "us": us, "others": round(result.others, 3)}]


if __name__ == "__main__":
    os.environ["REGARD_THREADS"] = "1"
    this = Run("host", __doc__, seconds=2)
    sys.exit(this.each(CELLS, lambda cell: measure(cell, this)))
