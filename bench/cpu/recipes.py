#!/usr/bin/env python3
"""Checks whether the plan chooses the fastest recipe: problems with few query rows, or few heads, against many keys,
run with each recipe that supports them.

Writes a line of JSON per cell to bench/results/recipes-<machine>-<date>.jsonl: ms by recipe, the chosen one, and `cost`
(the chosen recipe's time divided by that of the fastest).
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

KV_HEADS = 4
FEW_ROWS = (1, 2, 4, 8, 16, 32)
# Rows of one head: from where the decode kernel is best to where blocks of rows are enough for all threads.
ROWS_OF_ONE_HEAD = (1, 6, 12, 24, 48, 96, 192, 384, 768)
TURN = Turn(pause=0, ms=2)
# By recipe: the option `family`, and a word that rules out the other recipes of the family.
RECIPES = {"decode": ("decode", ""), "forward": ("forward", " splits=1"), "forward_split": ("forward_split", "")}


@dataclass(frozen=True)
class Cell:
    dtype: str
    d: int
    sq: int
    group: int
    sk: int
    hk: int = KV_HEADS

    @property
    def name(self) -> str:
        heads = "" if self.hk == KV_HEADS else f" hk{self.hk}"
        return f"{self.dtype} d{self.d} sq{self.sq} group{self.group} sk{self.sk}{heads}"

    @property
    def problem(self) -> str:
        heads = f"hq={self.hk * self.group} hk={self.hk}"
        return f"fwd {self.dtype} b=1 {heads} sq={self.sq} sk={self.sk} d={self.d} layout=bhsd"


def cells(quick: bool) -> list[Cell]:
    kinds = list(itertools.product(("fp32", "bf16", "fp16"), (64, 128)))
    lengths = (256,) if quick else (256, 1024, 4096, 16384)
    few_rows = itertools.product(kinds, (1, 16) if quick else FEW_ROWS, (1, 4, 8), lengths)
    one_head = itertools.product(kinds, (48,) if quick else ROWS_OF_ONE_HEAD, (1,), lengths[::2])
    return [Cell(*kind, *values) for kind, *values in few_rows] + [
        Cell(*kind, *values, hk=1) for kind, *values in one_head
    ]


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import regard
    from bench.cpu.prepared import Prepared

    found = {}
    for recipe, (family, words) in RECIPES.items():
        try:
            found[recipe] = Prepared(cell.problem + words, run.threads, family=family)
        except regard.RefusedError:
            continue
    chosen = json.loads(regard.plan(cell.problem, threads=run.threads).json)
    kernels = [stage["kernel"] for stage in chosen["stages"]]
    name = next(recipe for recipe, prepared in found.items() if prepared.described["kernel"] == kernels)

    result = interleaved(dict(found), run.threads, run.options.seconds, run.rounds, turn=TURN)
    ms = {recipe: round(result.median(recipe), 5) for recipe in found}
    best = min(ms, key=lambda recipe: ms[recipe])
    cost = ms[name] / ms[best]
    if cost > 1.1:
        print(f"    {name} was chosen and takes {cost:.2f} of {best}: {ms}", flush=True)
    origin = {"problem": cell.problem, "threads": run.threads, "target": chosen["target"]}
    others = round(result.others, 3)
    return [{"cell": cell.name, **origin, "chosen": name, "cost": round(cost, 3), "ms": ms, "others": others}]


if __name__ == "__main__":
    this = Run("recipes", __doc__, seconds=0.12)
    sys.exit(this.each(cells(this.quick), lambda cell: measure(cell, this)))
