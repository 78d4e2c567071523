#!/usr/bin/env python3
"""Regard against PyTorch's scaled_dot_product_attention on the CPU.

One process, the same tensors and thread count, contestants interleaved round by round, medians. Writes one line of
JSON per cell to bench/results/cpu-<machine>-<date>.jsonl; bench/table.py draws the tables. docs/benchmarks.md
describes the fields.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cells and few rounds: does it run at all?")
    parser.add_argument("--cells", default="", metavar="WORDS", help="only cells whose name has all words: 'fwd bf16'")
    parser.add_argument("--rounds", type=int, default=0, help="rounds per cell; by default 5 to 25, about 5 s")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, help="the file to write; by default by machine and date")
    parser.add_argument("--list", action="store_true", help="print the cells' names")
    return parser.parse_args()


options = arguments()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(options.threads)  # before NumPy and PyTorch read them
# OpenBLAS's idle threads spin for 100 ms by default: Regard and PyTorch then take 1.2 times as long on two cores.
os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"

import machine  # noqa: E402
from cells import Cell, all_cells  # noqa: E402

SECONDS_PER_CELL = 5.0
# Worker threads of the other libraries spin for a while when they have nothing to do; whoever comes next would run
# beside them.
PAUSE = 0.02


def timed(call: Any) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def measure(cell: Cell) -> dict[str, Any]:
    import contestants

    contest = contestants.contest(cell, options.threads)
    calls = {"regard": contest.regard, **contest.peers}
    calls.update({name: call for name, (call, _) in contest.ceilings.items()})
    peak = machine.peak_bytes(contest.regard_fresh)
    peer_peak = machine.peak_bytes(next(iter(contest.peers.values())))

    warm = sum(timed(call) for call in calls.values()) / 1e3
    rounds = options.rounds or (2 if options.quick else max(5, min(25, int(SECONDS_PER_CELL / warm))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            samples[name].append(timed(calls[name]))
        order = order[1:] + order[:1]  # nobody always follows the same one
    medians = {name: statistics.median(values) for name, values in samples.items()}

    stages = contest.kernels
    return {
        "problem": cell.problem(),
        "cell": cell.name,
        "measure": cell.measure,
        "machine": machine.cpu_model(),
        "threads": options.threads,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": machine.commit(),
        "regard_ms": medians["regard"],
        "peers": {name: medians[name] for name in contest.peers},
        "ceilings": {name: work / medians[name] / 1e6 for name, (_, work) in contest.ceilings.items()},
        "flops": cell.flops,
        "rounds": rounds,
        "samples_ms": {name: [round(value, 4) for value in values] for name, values in samples.items()},
        "difference": contest.difference,
        "kernel": [stage.get("key", stage.get("kernel")) for stage in stages],
        "source": [stage.get("tier", stage.get("source")) for stage in stages],
        "peak_bytes": peak,
        "peer_peak_bytes": peer_peak,
    }


def main() -> int:
    cells = [
        cell for cell in all_cells(options.quick) if all(word in cell.name.split() for word in options.cells.split())
    ]
    if options.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    if not cells:
        print(f"no cell has all of the words '{options.cells}'; --list prints them", file=sys.stderr)
        return 2
    import torch

    torch.set_num_threads(options.threads)
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    kind = "quick" if options.quick else "cpu"
    out = options.out or machine.ROOT / "bench/results" / f"{kind}-{machine.slug(options.threads)}-{today}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{machine.cpu_model()}, {options.threads} threads, {len(cells)} cells -> {out}")
    with out.open("w") as lines:
        for number, cell in enumerate(cells, 1):
            result = measure(cell)
            lines.write(json.dumps(result) + "\n")
            lines.flush()
            best = min(result["peers"].values())
            ceiling = ", ".join(f"{name} {value:.3g}" for name, value in result["ceilings"].items())
            print(
                f"[{number}/{len(cells)}] {cell.name:32} {result['regard_ms']:9.2f} ms "
                f"{cell.flops / result['regard_ms'] / 1e6:7.1f} GFLOP/s  {best / result['regard_ms']:6.2f} x PyTorch  "
                f"({ceiling}; {result['rounds']} rounds)",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
