"""The files of results: <series>-<machine>-<date>.jsonl."""

from __future__ import annotations

import json
from pathlib import Path

from bench.shared.machine import ROOT
from bench.shared.markdown import Line

BENCH = ROOT / "bench/results"
GPU_TESTS = ROOT / "tests/gpu/results"


def newest(series: str) -> list[Path]:
    """One file of each machine, the newest last; of one day the most complete."""
    files = [file for folder in (BENCH, GPU_TESTS) for file in folder.glob(f"{series}-*.jsonl")]
    found: dict[str, Path] = {}
    for file in sorted(files, key=lambda file: (file.stem[-10:], file.stat().st_size, file.name)):
        found.pop(file.stem[:-11], None)
        found[file.stem[:-11]] = file
    return list(found.values())


def read(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]
