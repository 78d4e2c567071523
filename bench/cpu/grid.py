"""A cell of the grid: Regard, PyTorch and the ceilings in interleaved rounds in one process."""

from __future__ import annotations

import time
from typing import Any

from bench.cpu.ceilings import LEAST_CALLS, affordable
from bench.cpu.cells import Cell
from bench.cpu.run import Run
from bench.cpu.timing import interleaved
from bench.shared import machine


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    from bench.cpu import contestants

    torch.set_num_threads(run.threads)
    contest = contestants.contest(cell, run.threads)
    start = time.perf_counter()
    peak = machine.peak_bytes(contest.regard_fresh)
    peer_peak = machine.peak_bytes(next(iter(contest.peers.values())))
    once = time.perf_counter() - start
    ceilings, left_out = affordable(contest.ceilings, max(run.options.seconds, LEAST_CALLS * once))
    calls = {"regard": contest.regard, **contest.peers, **{name: one.call for name, one in ceilings.items()}}
    times = interleaved(calls, run.threads, run.options.seconds, run.rounds)
    line = {
        "problem": cell.problem(),
        "cell": cell.name,
        "measure": cell.measure,
        "threads": run.threads,
        "target": contest.target,
        "regard_ms": times.median("regard"),
        "peers": {name: times.median(name) for name in contest.peers},
        "ceilings": {name: one.work / times.median(name) / 1e6 for name, one in ceilings.items()},
        "ceilings_left_out": left_out,
        "flops": cell.flops,
        "rounds": times.rounds,
        "others": round(times.others, 3),
        "samples_ms": {name: times.rounded(name) for name in calls},
        "difference": contest.difference,
        "kernel": [stage["kernel"] for stage in contest.kernels],
        "source": [stage["tier"] for stage in contest.kernels],
        "peak_bytes": peak,
        "peer_peak_bytes": peer_peak,
    }
    for name, why in left_out.items():
        print(f"    without {name}: {why}", flush=True)
    shown = ", ".join(f"{name} {value:.3g}" for name, value in line["ceilings"].items()) or "no ceiling"
    print(
        f"    {line['regard_ms']:9.2f} ms {cell.flops / line['regard_ms'] / 1e6:7.1f} GFLOP/s  "
        f"{min(line['peers'].values()) / line['regard_ms']:6.2f} x PyTorch  ({shown}; {times.rounds} rounds, "
        f"others {times.others:.0%})",
        flush=True,
    )
    return [line]
