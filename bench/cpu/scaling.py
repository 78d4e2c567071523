#!/usr/bin/env python3
"""From one thread to all cores: parallel efficiency of two long heads, compared with what the machine can deliver.

One thread, two, four ... and all cores take turns in one process. Then the machine itself is measured: one process
against one per core, each pinned to its own core with one thread and one head, so that they share nothing; and one core
against all cores multiplying in registers alone (bench/cpu/arithmetic.cpp), so that not even memory limits them.
Writes a line of JSON per thread count to bench/results/scaling-<machine>-<date>.jsonl; docs/benchmarks.md describes
the fields.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from bench.cpu.comparison import Case, Comparison, compare
from bench.cpu.cost_tables import efficiency
from bench.cpu.run import Run
from bench.shared import machine

HEADS = 2
MS_APART = 4000  # per process: their starts are up to half a second apart


def comparisons(threads: int, quick: bool) -> list[Comparison]:
    counts = sorted({threads, *(2**i for i in range(threads.bit_length()) if 2**i <= threads)})
    s = 512 if quick else 8192
    found = []
    for pass_, dtype, mask in itertools.product(("fwd", "bwd"), ("bf16", "fp32"), ("full", "causal")):
        problem = f"{pass_} {dtype} b=1 s={s} d=128 layout=bhsd" + " mask=causal" * (mask == "causal")
        cases = tuple(Case(f"{n} threads", f"{problem} h={HEADS}", threads=n) for n in counts)
        found.append(Comparison(f"{pass_} {dtype} {mask}", "scaling", cases))
    return found


def gflops_apart(problem: str, count: int, rounds: int) -> float:
    """The total of `count` processes that share nothing, on the first of the cores that this process may use."""
    command = shutil.which("regard", path=f"{machine.ROOT}/build/release:{os.environ['PATH']}")
    if command is None:
        sys.exit("the command regard is neither in build/release nor in PATH; ./dev build makes it")
    bench = [command, "bench", problem, "--threads=1", f"--rounds={rounds}"]
    running = [
        subprocess.Popen(
            ["taskset", "-c", str(core), *bench], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for core in sorted(os.sched_getaffinity(0))[:count]
    ]
    printed = [process.communicate() for process in running]
    for process, (_, report) in zip(running, printed):
        if process.returncode != 0:
            sys.exit(f"regard bench failed for '{problem}': {report.strip()}")
    return sum(json.loads(text)["gflops"] for text, _ in printed)


@cache
def arithmetic_program() -> Path | None:
    """bench/cpu/arithmetic.cpp compiled for this machine; None if the compiler fails."""
    program = Path(tempfile.mkdtemp(prefix="regard-bench-")) / "arithmetic"
    compiler = os.environ.get("REGARD_CXX", "c++")
    source = machine.ROOT / "bench/cpu/arithmetic.cpp"
    command = [compiler, "-std=c++20", "-O2", "-march=native", "-pthread", str(source), "-o", str(program)]
    atexit.register(shutil.rmtree, program.parent)
    return program if subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0 else None


def arithmetic_gflops(line: dict[str, Any]) -> float | None:
    """The register-only rate of as many cores, with the instructions that the kernel of this line uses.

    None if the machine or its compiler lacks these instructions.
    """
    kind = "vectors"
    if " bf16 " in line["problem"]:
        kind = {"cpu-amx": "tiles", "cpu-avx512bf16": "pairs"}.get(line["target"], kind)
    program = arithmetic_program()
    if program is None:
        return None
    ran = subprocess.run([str(program), kind, str(line["threads"])], capture_output=True, text=True)
    return float(ran.stdout) if ran.returncode == 0 else None


def measure(comparison: Comparison, run: Run) -> list[dict[str, Any]]:
    lines = compare(comparison, run)
    problem = comparison.cases[0].problem.replace(f" h={HEADS}", " h=1")
    for line in lines:
        line["efficiency"] = 1 / (line["cost"] * line["threads"])
    rounds = 1 if run.quick else max(5, round(MS_APART / (lines[0]["regard_ms"] / HEADS)))
    for line in (lines[0], lines[-1]):
        line["gflops_apart"] = gflops_apart(problem, line["threads"], rounds)
        if (alone := arithmetic_gflops(line)) is not None:
            line["gflops_arithmetic"] = alone
    print(
        f"    efficiency {lines[-1]['efficiency']:.2f}, of processes apart {efficiency(lines, 'gflops_apart')}, "
        f"of arithmetic alone {efficiency(lines, 'gflops_arithmetic')}"
    )
    return lines


if __name__ == "__main__":
    this = Run("scaling", __doc__, seconds=1.5)
    sys.exit(this.each(comparisons(this.threads, this.quick), lambda comparison: measure(comparison, this)))
