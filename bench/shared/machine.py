"""The machine that a benchmark runs on, and how much of its memory a call uses."""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return "unknown CPU"


def slug(name: str) -> str:
    """A name in the form used in file names."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def cpu_slug(threads: int) -> str:
    """The CPU model and the number of cores used, without the host name."""
    model = re.sub(r"\((r|tm)\)|\bcpu\b|@.*|processor", "", cpu_model(), flags=re.IGNORECASE)
    return f"{slug(model)}-{threads}-cores"


def commit() -> str:
    """The measured commit, marked if the working tree differs from it; BENCH_COMMIT names it where git cannot."""
    if "BENCH_COMMIT" in os.environ:
        return os.environ["BENCH_COMMIT"]

    def git(*arguments: str) -> str:
        result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return result.stdout.strip() if result.returncode == 0 else ""

    drawn = (":!bench/results", ":!docs/results", ":!README.md")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *drawn)
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


def origin(name: str) -> dict[str, str]:
    """The fields of every result line: the CPU or GPU `name`, today's date, and this commit."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return {"machine": name, "date": date, "commit": commit()}


def _status(field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 if match else 0


def peak_bytes(call: Callable[[], object]) -> int | None:
    """How far the resident memory of this process rises while `call` runs and its result lives."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # so that memory freed earlier cannot be reused unnoticed
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        return None
    before = _status("VmRSS")
    result = call()
    peak = _status("VmHWM")
    del result
    return max(peak - before, 0)
