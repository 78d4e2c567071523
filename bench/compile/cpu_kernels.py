"""Measures what it costs to get a kernel: to compile it on one core, and to find, verify and load it from the cache,
step by step.

    python -m bench.compile.cpu_kernels [--command build/release/regard] [--compilers g++ clang++]
        [--targets cpu-amx cpu-avx512] [--rounds 7] [--out FILE]

Each figure is the median over the rounds. Each round is a separate process with its own cache, and measures all cases
one after the other, so that a machine that slows down slows all of them. `best_s` is the fastest compile: if the median
is far above it, the machine was busy. Writes a line of JSON per kernel and compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from bench.compile.tables import STEPS
from bench.shared.machine import cpu_model, origin
from bench.shared.progress import counted

PROBLEMS = [
    "fwd fp32 h=1 s=40 d=72 mask=causal",
    "fwd bf16 h=1 s=40 d=72 mask=causal",
    "fwd bf16 hq=4 hk=1 sq=1 sk=600 d=72",
    "bwd fp32 h=1 s=40 d=72 mask=causal",
    "bwd bf16 h=1 s=40 d=72 mask=causal",
]


def run(command: str, compiler: str, target: str, problem: str, cache: str) -> tuple[list[dict], dict[str, dict]]:
    """The stages of a process that took its kernels from that cache, and the steps that it logged."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    settings = {"REGARD_CACHE_DIR": cache, "REGARD_BUILT_IN": "off", "REGARD_CXX": compiler, "REGARD_LOG": "cache"}
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [command, "run", problem, "--json", "--repeat", "0", *(["--target", target] if target else [])],
        env=kept | settings,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    logged = {}
    for kernel, times in re.findall(r"^regard cache: (.*) in ms:(.*)$", done.stderr, re.MULTILINE):
        logged[kernel] = {name: float(value) for name, value in re.findall(r" (\w+) ([\d.]+)", times)}
    return json.loads(done.stdout)["plan"]["stages"], logged


def one_round(command: str, compiler: str, target: str, problem: str) -> list[dict]:
    """For each kernel of the problem: the seconds to compile it, and the milliseconds of each step from the cache."""
    with tempfile.TemporaryDirectory() as cache:
        compiled, _ = run(command, compiler, target, problem, cache)
        cached, steps = run(command, compiler, target, problem, cache)
    assert all(stage["tier"] == "compile" for stage in compiled), compiled
    assert all(stage["tier"] == "cache" for stage in cached), cached
    return [
        {
            "kernel": before["kernel"],
            "compile_s": before["seconds"],
            "cached_ms": after["seconds"] * 1e3,
            **steps[before["kernel"]],
        }
        for before, after in zip(compiled, cached, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="build/release/regard")
    parser.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    parser.add_argument("--targets", nargs="+", default=[""], help="by default the best of this machine")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    compilers = [compiler for compiler in options.compilers if shutil.which(compiler)]
    for missing in set(options.compilers) - set(compilers):
        print(f"{missing} is not here", file=sys.stderr)
    rounds: dict[tuple[str, str, str], list[list[dict]]] = {}
    for case in counted(list(product(compilers, options.targets, PROBLEMS)) * options.rounds, " ".join):
        rounds.setdefault(case, []).append(one_round(options.command, *case))

    about = origin(cpu_model())
    lines, seen = [], set()
    for (compiler, _, problem), all_rounds in rounds.items():
        for position, first in enumerate(all_rounds[0]):
            if (compiler, first["kernel"]) in seen:
                continue
            seen.add((compiler, first["kernel"]))
            row = {"series": "kernels", **about, "compiled_by": compiler, "problem": problem, "kernel": first["kernel"]}
            row |= {"first": position == 0, "rounds": len(all_rounds)}
            row["best_s"] = round(min(taken[position]["compile_s"] for taken in all_rounds), 4)
            for step in ("compile_s", "cached_ms", *STEPS):
                row[step] = round(statistics.median(taken[position][step] for taken in all_rounds), 4)
            lines.append(row)
            steps = "  ".join(f"{step} {row[step]:.3f}" for step in STEPS)
            name = " ".join(first["kernel"].split()[:2])
            print(
                f"{compiler:12} {name:34} {problem:38} compile {row['compile_s']:.3f} s   "
                f"cached {row['cached_ms']:.2f} ms: {steps}{'   (first of its process)' if row['first'] else ''}"
            )
    if options.out:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
