#!/usr/bin/env python3
"""Head dimensions 8 to 256 in steps of 8: is there a cliff between neighbours?

All head dimensions take turns in one process. Writes a line of JSON per head dimension to
bench/results/sweep-<machine>-<date>.jsonl; docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from comparison import Case, Comparison, compare
from run import Run

LANES = 16  # of an fp32 vector: head dimensions are padded to it


def comparisons(quick: bool) -> list[Comparison]:
    s = 128 if quick else 1024
    return [
        Comparison(
            f"{pass_} {dtype}",
            "sweep",
            tuple(Case(f"d={d}", f"{pass_} {dtype} b=1 h=4 s={s} d={d} layout=bhsd") for d in range(8, 257, 8)),
        )
        for pass_, dtype in itertools.product(("fwd", "bwd"), ("bf16", "fp32"))
    ]


def measure(comparison: Comparison, run: Run) -> list[dict[str, Any]]:
    """Each line's cost is that of the slower neighbour or itself over the faster, per padded FLOP."""
    lines = compare(comparison, run)
    per_flop = []
    for number, line in enumerate(lines, 1):
        d = 8 * number
        padded = line["flops"] * (-(-d // LANES) * LANES) / d
        per_flop.append(line["regard_ms"] / padded)
    for index, line in enumerate(lines):
        beside = [per_flop[i] for i in (index - 1, index + 1) if 0 <= i < len(lines)]
        line.update(base="neighbours", cost=max(max(per_flop[index], x) / min(per_flop[index], x) for x in beside))
    worst = max(lines, key=lambda line: line["cost"])
    print(f"    between neighbours at most {worst['cost']:.2f}, at {worst['case']}")
    return lines


if __name__ == "__main__":
    this = Run("sweep", __doc__, seconds=0.3)
    sys.exit(this.each(comparisons(this.quick), lambda comparison: measure(comparison, this)))
