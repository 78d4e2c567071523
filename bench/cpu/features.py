#!/usr/bin/env python3
"""Measures what masks, packed sequences, grouped heads and every other feature cost relative to the plain problem.

Each comparison runs its cases in interleaved rounds in one process and writes a line of JSON per case to
bench/results/features-<machine>-<date>.jsonl. docs/benchmarks.md describes the fields; goals.py has the goals.
"""

from __future__ import annotations

import itertools
import sys

from bench.cpu.comparison import Case, Comparison, compare
from bench.cpu.run import Run

# Words added to the plain problem, in the order of the table.
FEATURES = {
    "bias [1,1,s,s]": "bias=11",
    "bias [1,h,s,s]": "bias=1h",
    "bias [b,1,s,s]": "bias=b1",
    "bias [b,h,s,s]": "bias=bh",
    "ALiBi": "bias=alibi",
    "softcap": "softcap=30",
    "softcap and ALiBi": "softcap=30 bias=alibi",
    "dropout": "dropout=0.1",
    "learned sink": "sink",
    "row ranges": "ranges",
    "bits": "bits",
}
# Features that only one pass has.
PASS_FEATURES = {"fwd": {"LSE": "lse"}, "bwd": {}}
SKEWED = (4096, 2048, 0, 1024, 512, 256, 0, 128, 64, 37)


def comparisons(quick: bool) -> list[Comparison]:
    def length(s: int) -> int:
        return max(s // 16, 1) if quick and s else s

    def plain(pass_: str, dtype: str, s: int, d: int = 128, b: int = 1, heads: str = "h=2") -> str:
        return f"{pass_} {dtype} b={b} {heads} s={length(s)} d={d} layout=bhsd"

    found = []
    passes = list(itertools.product(("fwd", "bwd"), ("bf16", "fp32")))
    for pass_, dtype in passes:
        base = plain(pass_, dtype, 2048, b=2)
        cases = [Case("plain", base)]
        cases += [Case(name, f"{base} {words}") for name, words in {**FEATURES, **PASS_FEATURES[pass_]}.items()]
        found.append(Comparison(f"{pass_} {dtype} features", "feature", tuple(cases)))
        window = f"{base} mask=window:{length(512)},0"
        found.append(
            Comparison(
                f"{pass_} {dtype} sink-tokens",
                "feature",
                (Case("window 512", window), Case("sink tokens (beside the window alone)", f"{window},sink=4")),
            )
        )
    for (pass_, dtype), d, s in itertools.product(passes, (64, 128), (2048, 8192)):
        base = plain(pass_, dtype, s, d, heads="h=8" if s == 2048 else "h=2")
        name = f"{pass_} {dtype} causal d{d} s{s}"
        found.append(Comparison(name, "causal", (Case("full", base), Case("causal", base + " mask=causal"))))
    for pass_, dtype in passes:
        base = plain(pass_, dtype, 16384)
        window = Case("window 1024", f"{base} mask=window:{length(1024)},0")
        found.append(Comparison(f"{pass_} {dtype} window", "window", (Case("full", base), window), per_flop=True))
    lengths = tuple(map(length, SKEWED))
    for (pass_, dtype), mask in itertools.product(passes, ("", " mask=causal")):
        dense = Case("dense", plain(pass_, dtype, max(SKEWED)) + mask)
        words = f"b={len(lengths)} h=2 s={max(lengths)} tq={sum(lengths)} tk={sum(lengths)} d=128"
        varlen = Case("packed", f"{pass_} {dtype} varlen {words}{mask}", lengths=lengths)
        name = f"{pass_} {dtype} varlen {'causal' if mask else 'full'}"
        found.append(Comparison(name, "varlen", (dense, varlen), per_flop=True))
    for (pass_, dtype), mask in itertools.product(passes, ("", " mask=causal")):
        cases = [Case(heads, plain(pass_, dtype, 1024, heads=heads) + mask) for heads in ("hq=32 hk=32", "hq=32 hk=8")]
        found.append(Comparison(f"{pass_} {dtype} gqa {'causal' if mask else 'full'}", "gqa", tuple(cases)))
    return found


if __name__ == "__main__":
    this = Run("features", __doc__, seconds=0.4)
    sys.exit(this.each(comparisons(this.quick), lambda comparison: compare(comparison, this)))
