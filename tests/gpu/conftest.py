"""Tests of the GPU path on a GPU: ./dev gpu-test. Each test writes a line to a log, and a whole run also a summary."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import here  # noqa: E402
from bench.shared import machine, results  # noqa: E402

OUTCOMES = ("passed", "failed", "skipped")


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="fewer problems and repeats: about two minutes")
    parser.addoption("--log", type=Path, help="the file with a line per test; by default in build/reports/gpu")
    parser.addoption("--results", type=Path, help="the summary's file; by default of a whole run in tests/gpu/results")


class Results:
    """Writes a line per test; at the end prints a table of the parts and writes it as a line per part."""

    def __init__(self, log: Path, summary: Path | None, origin: dict[str, str]) -> None:
        self.log, self.summary, self.origin = log, summary, origin
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.failures: list[str] = []
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report):
        if report.when != "call" and (report.when != "setup" or report.passed):
            return
        part, test = here.part_and_test(report.nodeid)
        line = {"part": part, "test": test, "outcome": report.outcome}
        line |= {"seconds": round(report.duration, 3), **dict(report.user_properties)}
        if report.failed:
            line["message"] = re.sub(r"/\S+/", "", report.longreprtext)[-6000:]
            self.failures.append(f"{line['part']}: {test}")
        elif report.skipped:
            line["message"] = str(report.longrepr[2])
        self.counts[line["part"]][report.outcome] += 1
        with self.log.open("a") as file:
            file.write(json.dumps({**line, **self.origin}) + "\n")

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("GPU tests")
        for failure in self.failures:
            terminalreporter.write_line(f"FAILED {failure}")
        terminalreporter.write_line(f"{'part':16}" + "".join(f"{word:>9}" for word in OUTCOMES))
        for part, counts in self.counts.items():
            terminalreporter.write_line(f"{part:16}" + "".join(f"{counts[word]:9}" for word in OUTCOMES))
        terminalreporter.write_line(f"{self.origin['machine']}, commit {self.origin['commit']} -> {self.log}")
        if self.summary:
            self.summary.parent.mkdir(parents=True, exist_ok=True)
            self.summary.write_text("".join(json.dumps(line) + "\n" for line in self.summarized()))
            terminalreporter.write_line(f"summary -> {self.summary}")

    def summarized(self) -> list[dict[str, Any]]:
        """The summary, in the form that bench/tables.py reads."""
        return [
            {"series": "checks", "part": part, **{word: counts[word] for word in OUTCOMES}, **self.origin}
            for part, counts in self.counts.items()
        ]


def pytest_configure(config):
    if not here.GPUS:
        raise pytest.UsageError("no GPU to test: " + "; ".join(here.info()["gpus_missing"].values()))
    if any(gpu["kind"] != here.KIND for gpu in here.GPUS):
        raise pytest.UsageError(
            "this machine has GPUs of both makes; CUDA_VISIBLE_DEVICES=-1 or HIP_VISIBLE_DEVICES=-1 hides one"
        )
    origin = machine.origin(here.GPUS[0]["name"])
    file = f"checks-{machine.slug(origin['machine'])}-{origin['date']}.jsonl"
    log = config.getoption("--log") or here.ROOT / "build/reports/gpu" / file
    partial = any(map(config.getoption, ("--quick", "keyword", "markexpr", "collectonly")))
    partial = partial or any(".py" in path for path in config.args)
    summary = config.getoption("--results") or (None if partial else results.GPU_TESTS / file)
    config.pluginmanager.register(Results(log.absolute(), summary and summary.absolute(), origin))


_pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))


def pytest_collection_finish(session):
    """Starts the work that is done ahead, in parallel with the first tests."""
    for item in session.items:
        if (crowd := getattr(item.module, "crowd", None)) and hasattr(item, "callspec"):
            crowd.start(item.callspec.params, _pool)


def pytest_sessionfinish():
    _pool.shutdown(wait=False, cancel_futures=True)


def pytest_collection_modifyitems(config, items):
    """--quick keeps every fourth row of a table, and all rows of a small table."""
    if not config.getoption("--quick"):
        return
    sizes = Counter(item.function for item in items)
    seen: Counter[object] = Counter()
    kept = []
    for item in items:
        if sizes[item.function] <= 40 or seen[item.function] % 4 == 0:
            kept.append(item)
        seen[item.function] += 1
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
