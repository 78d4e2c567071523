"""A cell of the grid: Regard, PyTorch and the ceilings in interleaved rounds of one process."""

from __future__ import annotations

from typing import Any

import machine
from cells import Cell
from run import Run
from timing import interleaved


def measure(cell: Cell, run: Run, ceilings: bool = True) -> list[dict[str, Any]]:
    import torch

    import contestants

    torch.set_num_threads(run.threads)
    contest = contestants.contest(cell, run.threads)
    if not ceilings:
        contest.ceilings.clear()
    calls = {"regard": contest.regard, **contest.peers}
    calls.update({name: call for name, (call, _) in contest.ceilings.items()})
    peak = machine.peak_bytes(contest.regard_fresh)
    peer_peak = machine.peak_bytes(next(iter(contest.peers.values())))
    times = interleaved(calls, run.threads, run.options.seconds, run.rounds)
    line = {
        "problem": cell.problem(),
        "cell": cell.name,
        "measure": cell.measure,
        "threads": run.threads,
        "target": contest.target,
        "regard_ms": times.median("regard"),
        "peers": {name: times.median(name) for name in contest.peers},
        "ceilings": {name: work / times.median(name) / 1e6 for name, (_, work) in contest.ceilings.items()},
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
    shown = ", ".join(f"{name} {value:.3g}" for name, value in line["ceilings"].items())
    print(
        f"    {line['regard_ms']:9.2f} ms {cell.flops / line['regard_ms'] / 1e6:7.1f} GFLOP/s  "
        f"{min(line['peers'].values()) / line['regard_ms']:6.2f} x PyTorch  ({shown}; {times.rounds} rounds, "
        f"others {times.others:.0%})",
        flush=True,
    )
    return [line]
