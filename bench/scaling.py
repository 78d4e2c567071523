#!/usr/bin/env python3
"""From one thread to all cores: parallel efficiency of two long heads.

One thread, two, four ... and all cores take turns in one process. Writes a line of JSON per thread count to
bench/results/scaling-<machine>-<date>.jsonl; docs/benchmarks.md describes the fields.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from comparison import Case, Comparison, compare
from run import Run


def comparisons(threads: int, quick: bool) -> list[Comparison]:
    counts = sorted({threads, *(2**i for i in range(threads.bit_length()) if 2**i <= threads)})
    s = 512 if quick else 8192
    found = []
    for pass_, dtype, mask in itertools.product(("fwd", "bwd"), ("bf16", "fp32"), ("full", "causal")):
        problem = f"{pass_} {dtype} b=1 h=2 s={s} d=128 layout=bhsd" + " mask=causal" * (mask == "causal")
        cases = tuple(Case(f"{n} threads", problem, threads=n) for n in counts)
        found.append(Comparison(f"{pass_} {dtype} {mask}", "scaling", cases))
    return found


def measure(comparison: Comparison, run: Run) -> list[dict[str, Any]]:
    lines = compare(comparison, run)
    for line in lines:
        line["efficiency"] = 1 / (line["cost"] * line["threads"])
    print(f"    efficiency {lines[-1]['efficiency']:.2f}")
    return lines


if __name__ == "__main__":
    this = Run("scaling", __doc__, seconds=1.5)
    sys.exit(this.each(comparisons(this.threads, this.quick), lambda comparison: measure(comparison, this)))
