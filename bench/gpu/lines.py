"""Runs measurements on a GPU one after the other: each writes a line of JSON to the results file and prints a line."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.shared import machine, results
from bench.shared.progress import counted


def readable(line: dict[str, Any]) -> str:
    figures = "  ".join(f"{name} {value:6.1f}" for name, value in line.get("tflops", {}).items())
    ratios = "".join(f"  {key.replace('_', ' ')} {value:.3f}" for key, value in line.items() if key.startswith("over_"))
    ratios += "".join(f"  {row['name']} {row.get('value', '–')}" for row in line.get("rows", ()))
    goal = f"  of goal {line['of_goal']:.3f}" if "of_goal" in line else ""
    return f"{line['cell']:28} {figures}{ratios}{goal}{line.get('host_us', line.get('host_ns', ''))}"


def write_lines(
    series: str,
    measurements: list[tuple[str, Callable[[], dict[str, Any]]]],
    out: Path | None,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[dict[str, Any]]:
    """Writes to `out`, by default to bench/results/<series>-<GPU>-<date>.jsonl, and returns the lines. The last
    measurement is the one after which `goes_on` says no."""
    origin = {"series": series, **machine.origin(torch.cuda.get_device_name())}
    out = out or results.BENCH / f"{series}-{machine.slug(origin['machine'])}-{origin['date']}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    of_goal: dict[str, list[float]] = defaultdict(list)
    lines = []
    with out.open("w") as file:
        for _, measurement in counted(measurements, lambda named: named[0]):
            line = {**measurement(), **origin}
            lines.append(line)
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(readable(line), flush=True)
            if "of_goal" in line:
                of_goal[line["cell"].split()[0]].append(line["of_goal"])
            if not goes_on():
                break
    for word, shares in of_goal.items():
        mean = statistics.geometric_mean(shares)
        print(f"{word}, of goal: least {min(shares):.3f}, geometric mean {mean:.3f} of {len(shares)} cells")
    print(f"-> {out}")
    return lines
