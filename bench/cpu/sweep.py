#!/usr/bin/env python3
"""Head dimensions 8 to 256 in steps of 8: is there a performance cliff between neighbours?

All head dimensions take turns in one process. Writes a line of JSON per head dimension to
bench/results/sweep-<machine>-<date>.jsonl; docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from typing import Any

from bench.cpu.comparison import Case, Comparison, compare
from bench.cpu.run import Run

HEAD_DIMS = range(8, 257, 8)
LANES = 16  # of a vector


def comparisons(quick: bool) -> list[Comparison]:
    s = 128 if quick else 1024
    return [
        Comparison(
            f"{pass_} {dtype}",
            "sweep",
            tuple(Case(f"d={d}", f"{pass_} {dtype} b=1 h=4 s={s} d={d} layout=bhsd") for d in HEAD_DIMS),
        )
        for pass_, dtype in itertools.product(("fwd", "bwd"), ("bf16", "fp32"))
    ]


def padded(d: int, pass_: str, dtype: str) -> float:
    """The effective head dimension after padding, averaged over the products.

    If it is the columns of a product (one of the two in forward, three of the five in backward), it is padded to whole
    vectors; if the product sums over it, to whole pairs of 16-bit numbers.
    """
    columns = -(-d // LANES) * LANES
    depth = d if dtype == "fp32" else d + d % 2
    share = 1 / 2 if pass_ == "fwd" else 3 / 5
    return share * columns + (1 - share) * depth


def measure(comparison: Comparison, run: Run) -> list[dict[str, Any]]:
    """Each cost is the larger of the ratios to the two neighbours, per padded FLOP; neighbours run back to back."""
    lines = compare(comparison, run)
    work = [padded(d, *comparison.name.split()) for d in HEAD_DIMS]
    steps = []  # from each line to the next
    for i in range(len(lines) - 1):
        ratios = [y / x for x, y in zip(lines[i]["samples_ms"], lines[i + 1]["samples_ms"])]
        step = statistics.median(ratios) * work[i] / work[i + 1]
        steps.append(max(step, 1 / step))
    for i, line in enumerate(lines):
        line.update(base="neighbours", cost=max(steps[max(i - 1, 0) : i + 1]))
    worst = max(lines, key=lambda line: line["cost"])
    print(f"    between neighbours at most {worst['cost']:.2f}, at {worst['case']}")
    return lines


if __name__ == "__main__":
    this = Run("sweep", __doc__, seconds=0.3)
    sys.exit(this.each(comparisons(this.quick), lambda comparison: measure(comparison, this)))
