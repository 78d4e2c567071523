#!/usr/bin/env python3
"""Measures backward of several builds of Regard on an NVIDIA GPU, alternating call by call in one process.

Each argument is NAME=FOLDER, the first one the base. A folder is a checkout, or only its kernels/, targets/ and
profiles/: kernels are compiled from there, by the build in its build/release or, if it has none, by that of this tree.
A round calls each build once with a cold L2 cache, in random order, so all builds run at the same clock and after the
same mix of calls. Prints TFLOP/s of the base and, for each of the others, the rate relative to it: the median of the
rounds' ratios and, in brackets, the interval that has half of them. The same folder under two names shows what chance
gives. A name that begins with "without" is for kernels that lack a part, whose results are not compared.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import regard
from bench.gpu.backward import MOST_DIFFERENCE, difference, inputs
from bench.gpu.backward_cells import cases, grid
from bench.gpu.build_calls import Build
from bench.gpu.cells import Cell
from bench.gpu.contestants import Call, varlen, workspace_of
from bench.gpu.timing import FLUSHED_BYTES
from bench.shared.progress import counted

TREE = Path(__file__).parents[2]
# Measured by default.
CELLS = (
    "grid d=128 causal s=1024",
    "grid d=128 causal s=4096",
    "grid d=128 causal s=16384",
    "grid d=128 full s=4096",
    "grid d=64 causal s=1024",
    "grid d=64 causal s=4096",
    "grid d=64 causal s=16384",
    "grid d=64 full s=4096",
    "beside gqa 64/8 causal",
    "beside d=192/128 causal",
)
SLEEP_CLOCKS = 200_000  # much longer than its launch


def cells(groups: list[str]) -> list[Cell]:
    """Those whose name has all words of a group; without groups, the default ones."""
    known = [*grid(), *(case.cell for case in cases())]
    if not groups:
        return [cell for cell in known if cell.name in CELLS]
    return [cell for cell in known if any(set(group.split()) <= set(cell.name.split()) for group in groups)]


def in_turns(calls: dict[str, Call], seconds: float) -> tuple[dict[str, list[float]], float]:
    """For each call its milliseconds in each round, and the clock of the multiprocessors in GHz."""
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    order = [*calls, ""]  # "": a kernel that lasts a number of clocks
    every: dict[str, Call] = {**calls, "": lambda: torch.cuda._sleep(SLEEP_CLOCKS)}
    shuffled = random.Random(0)

    def sample(rounds: int) -> dict[str, list[float]]:
        events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in every}
        for _ in range(rounds):
            shuffled.shuffle(order)
            for name in order:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flush.zero_()
                start.record()
                every[name]()
                end.record()
                events[name].append((start, end))
        torch.cuda.synchronize()
        return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}

    sample(2)
    once = sum(statistics.median(times) + 0.1 for times in sample(3).values())  # with the flush
    rounds = max(5, int(seconds * 1e3 / once))
    # The first quarter warms the GPU up.
    found = {name: times[rounds // 4 :] for name, times in sample(rounds).items()}
    return found, SLEEP_CLOCKS / statistics.median(found.pop("")) / 1e6


def ratio(base: list[float], other: list[float]) -> str:
    low, middle, high = statistics.quantiles([a / b for a, b in zip(base, other, strict=True)], n=4)
    return f"{middle:.3f} [{low:.3f} {high:.3f}]"


def measure(cell: Cell, builds: dict[str, Build], seconds: float) -> tuple[str, Any]:
    """A line of the table, and the tensors of the calls."""
    of = inputs(cell)
    plans = {name: build.plan(cell.problem) for name, build in builds.items()}
    gradients = {f"grad_{role}": torch.empty_like(x) for role, x in (("q", of.q), ("k", of.k), ("v", of.v))}
    workspace = workspace_of(max(plans.values(), key=lambda plan: plan.workspace_bytes))
    given = {**vars(of), **varlen(cell), **gradients}
    calls = {name: plan.call(given, workspace) for name, plan in plans.items()}
    expected: Any = None
    for name, call in calls.items():
        for x in gradients.values():
            x.fill_(torch.nan)
        call()
        torch.cuda.synchronize()
        expected = expected or tuple(x.clone() for x in gradients.values())
        far = difference(gradients.values(), expected)
        if not far < MOST_DIFFERENCE and not name.startswith("without"):
            raise SystemExit(f"{cell.name}: {name} differs from the first by {far:.3g}")
    times, clock = in_turns(calls, seconds)
    base, *others = times
    rate = cell.flops / statistics.median(times[base]) / 1e9
    figures = "".join(f"{ratio(times[base], times[name]):>24}" for name in others)
    return f"{cell.name:28}{clock:6.2f}{rate:10.1f}{figures}", (given, workspace)


def prepare(chosen: list[Cell], builds: dict[str, Build]) -> None:
    """Compiles all kernels, several at a time."""
    with ThreadPoolExecutor() as pool:
        forward = [replace(cell, backward=False) for cell in chosen]
        made = [
            pool.submit(lambda c=cell: regard.plan(f"{c.problem} lse", target="cuda").prepare()) for cell in forward
        ]
        made += [pool.submit(build.plan(cell.problem).prepare) for cell in chosen for build in builds.values()]
        for each in made:
            each.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument(
        "--cells", nargs="+", default=[], metavar="WORDS", help="cells whose name has all words: 'd=64 causal' beside"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of each cell in each place")
    parser.add_argument("--places", type=int, default=1, help="in how many places in memory")
    parser.add_argument("--compile", action="store_true", help="only compile the kernels")
    options = parser.parse_args()
    chosen = cells(options.cells)
    if not chosen:
        print(f"no cell has all of the words {options.cells}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        builds: dict[str, Build] = {}
        for word in options.builds:
            name, _, folder = word.partition("=")
            builds[name] = Build(Path(folder or TREE), TREE, Path(scratch) / f"{len(builds)}.so")
        prepare(chosen, builds)
        if options.compile:
            return 0
        base, *others = builds
        print(f"{'cell':28}{'GHz':>6}{base:>10}{''.join(f'{name:>24}' for name in others)}")
        for cell in counted(chosen, lambda cell: cell.name):
            held = []  # so that tensors of the next place lie elsewhere
            for _ in range(options.places):
                line, tensors = measure(cell, builds, options.seconds)
                held.append(tensors)
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
