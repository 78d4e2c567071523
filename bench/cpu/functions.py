#!/usr/bin/env python3
"""Compares attention with masks that are functions with plain attention, and with compiled FlexAttention, on this CPU.

16 heads, d = 64, 2048 keys. Calls take turns; ratios are medians over the rounds. Writes a line of JSON per cell to
bench/results/functions-<machine>-<date>.jsonl: ms by contestant; `of_plain`, the rate per visible pair of row and key
over that of attention without a mask; `of_flex`, the time of FlexAttention over ours. FlexAttention has no backward on
CPUs; its block mask is made before, ours is made by each call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved
from bench.shared.masks import masks

HEADS, D = 16, 64
TURN = Turn(pause=0, ms=20)


MASKS = masks(window=256)


@dataclass(frozen=True)
class Cell:
    mask: str
    dtype: str
    pass_: str
    threads: int
    keys: int

    @property
    def name(self) -> str:
        return f"{self.mask} {self.pass_} {self.dtype} threads{self.threads} s{self.keys}"


def cells(quick: bool, threads: int) -> list[Cell]:
    keys = 256 if quick else 2048
    types = ("bf16",) if quick else ("fp32", "bf16")
    return [
        Cell(mask, dtype, pass_, threads, keys)
        for dtype in types
        for pass_ in ("fwd", "bwd")
        for mask in (("causal", "natten") if quick else MASKS)
    ]


def call_of(cell: Cell, words: str, given: dict[str, Any]) -> Callable[[], Any]:
    import torch

    import regard

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[cell.dtype]
    problem = regard.Problem(f"{cell.pass_} {cell.dtype} h={HEADS} s={cell.keys} d={D} {words}")
    plan = regard.plan(problem, threads=cell.threads)
    plan.prepare()
    captured = {f"captured_{i}": tensor for i, tensor in enumerate(given.values())}
    tensors = {}
    for name, spec in problem.tensors.items():
        of = torch.float32 if name == "lse" else dtype
        tensors[name] = captured[name] if name in captured else torch.randn(tuple(spec.shape)).to(of)
    return lambda: plan.run(**tensors)


def flex_call(cell: Cell, given: dict[str, Any]) -> Callable[[], Any]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = MASKS[cell.mask].mask
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[cell.dtype]
    captured = [tensor.long() for tensor in given.values()]

    def function(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return mask(b, h, q, kv, *captured)

    block_mask = create_block_mask(function, 1, None, cell.keys, cell.keys, device="cpu")
    torch._dynamo.reset()  # after eight functions it would no longer compile
    compiled = torch.compile(flex_attention, dynamic=False)
    q, k, v = (torch.randn(1, HEADS, cell.keys, D).to(dtype) for _ in range(3))

    def call() -> Any:
        with torch.no_grad():
            return compiled(q, k, v, block_mask=block_mask)

    call()
    return call


def visible_share(cell: Cell, given: dict[str, Any]) -> float:
    import torch

    rows, keys = torch.meshgrid(torch.arange(cell.keys), torch.arange(cell.keys), indexing="ij")
    batch = torch.zeros_like(rows)
    seen = MASKS[cell.mask].mask(batch, batch, rows, keys, *(tensor.long() for tensor in given.values()))
    return float(seen.float().mean())


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(cell.threads)
    torch.manual_seed(0)
    mask = MASKS[cell.mask]
    given = mask.captured(HEADS, cell.keys)
    share = visible_share(cell, given)
    calls = {
        "mask": call_of(cell, mask.words, given),
        "plain": call_of(cell, "", {}),
    }
    if cell.pass_ == "fwd":
        calls["flex"] = flex_call(cell, given)
    times = interleaved(calls, cell.threads, run.options.seconds, run.rounds, turn=TURN)
    line = {
        "cell": cell.name,
        "threads": cell.threads,
        "ms": {name: round(times.median(name), 4) for name in calls},
        "visible": round(share, 4),
        "of_plain": round(share * times.ratio("plain", "mask"), 3),
        "rounds": times.rounds,
        "others": round(times.others, 3),
    }
    if "flex" in calls:
        line["of_flex"] = round(times.ratio("flex", "mask"), 3)
    print(f"    {line['ms']} ms; of plain {line['of_plain']}; of FlexAttention {line.get('of_flex', '-')}", flush=True)
    return [line]


if __name__ == "__main__":
    this = Run("functions", __doc__, seconds=4)
    sys.exit(this.each(cells(this.quick, this.threads), lambda cell: measure(cell, this)))
