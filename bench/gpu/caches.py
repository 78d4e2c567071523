#!/usr/bin/env python3
"""Forward on KV caches and append on an NVIDIA GPU: decoding beside a plain kernel that reads the same bytes, prefill
on pages beside packed keys, and FlashAttention-3 (--fa3) and FlashInfer as far as they are there.

The calls of a group take turns in one process with a cold L2 cache; figures are ratios of medians. Prints a table with
the bound of each figure, and writes a line of JSON per group to bench/results/caches-<GPU>-<date>.jsonl. Takes about a
minute and a half.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import regard
from bench.gpu import cache_groups, cache_tables
from bench.gpu.cache_groups import APPENDS, PEER, READ, Group, Ratio
from bench.gpu.contestants import TARGET
from bench.gpu.lines import write_lines
from bench.gpu.timing import LOAD_MILLISECONDS, SETTLING_MILLISECONDS, interleaved

MILLISECONDS = 50  # that count of each call in each of three rounds


def row(ratio: Ratio, ms: dict[str, float]) -> dict[str, Any]:
    """A figure, without a value if one of its calls was refused or no peer is there."""
    line: dict[str, Any] = {"name": ratio.name, "bound": ratio.bound, "at_least": ratio.at_least}
    if ratio.over in ms and ratio.of in ms:
        line["value"] = round(ratio.factor * ms[ratio.over] / ms[ratio.of], 4)
    return line


def with_fastest(ms: dict[str, float]) -> dict[str, float]:
    """Adds the read and the peer that figures refer to."""
    kinds = {READ: [ms[name] for name in ("sum", "copy") if name in ms]}
    kinds[PEER] = [value for name, value in ms.items() if name.startswith("peer ")]
    return {**ms, **{kind: min(times) for kind, times in kinds.items() if times}}


def measure(group: Group) -> dict[str, Any]:
    refused: dict[str, str] = {}
    calls = cache_groups.contestants(group, refused)
    for name in [name for name in calls if name.startswith("peer ")]:
        try:
            calls[name]()
        except Exception as error:  # peers refuse what they do not have in many ways
            refused[name] = str(error).partition("\n")[0]
            del calls[name]
    settling = (LOAD_MILLISECONDS, SETTLING_MILLISECONDS) if group.steady else (10, 20)
    times = interleaved(calls, MILLISECONDS, settling=settling)
    ms = {name: statistics.median(samples) for name, samples in times.items()}
    return {
        "cell": group.name,
        "ms": {name: round(value, 5) for name, value in ms.items()},
        "samples_ms": {name: [round(value, 5) for value in samples] for name, samples in times.items()},
        "rows": [row(ratio, with_fastest(ms)) for ratio in group.ratios],
        "refused": refused,
    }


def small_appends() -> dict[str, Any]:
    us = cache_groups.graph_times()
    rows = [{"name": f"{name}, µs", "bound": 5, "at_least": False, "value": round(us[name], 2)} for name in APPENDS]
    return {"cell": "append one token for 128", "us": us, "rows": rows}


def host() -> dict[str, Any]:
    us = cache_groups.host_times()
    ratio = Ratio("with a page table, times without", "page table", "plain", 1.2, False)
    return {"cell": "host time of a call", "us": us, "rows": [row(ratio, us)]}


def workspace() -> dict[str, Any]:
    value = round(cache_groups.workspace_mib(), 1)
    rows = [{"name": "b = 256 with a bound of 131072, MiB", "bound": 128, "at_least": False, "value": value}]
    return {"cell": "workspace", "rows": rows}


def prepare(problem: str) -> None:
    with contextlib.suppress(regard.RegardError):  # its measurement says why
        regard.plan(problem, target=TARGET).prepare()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="", metavar="TEXT", help="only groups whose name has this text")
    parser.add_argument("--fa3", type=Path, help="folder of the unpacked wheel fa3-fwd")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    if options.fa3:
        torch.ops.load_library(str(next(options.fa3.glob("fa3_fwd/_C*.so"))))
    groups = [*cache_groups.decoding(), *cache_groups.prefill(), *cache_groups.appends()]
    measurements: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (group.name, functools.partial(measure, group)) for group in groups
    ]
    measurements += [
        ("append one token for 128", small_appends),
        ("host time of a call", host),
        ("workspace", workspace),
    ]
    measurements = [(name, call) for name, call in measurements if options.cells in name]
    if not measurements:
        print(f"no group's name has '{options.cells}'", file=sys.stderr)
        return 2
    problems = [problem for group in groups if options.cells in group.name for problem in group.problems()]
    problems += [
        cache_groups.append_problem(b, new, words) for b, new in ((32, 2048), (128, 1)) for words in APPENDS.values()
    ]
    with ThreadPoolExecutor() as pool:  # compiles the kernels, many at once
        list(pool.map(prepare, problems))
    print("\n".join(cache_tables.caches(write_lines("caches", measurements, options.out))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
