"""What can be tested on this machine: programs, GPU, targets. Also runs many processes at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
COMMAND = os.environ.get("GPU_TEST_COMMAND", str(BUILD / "regard"))
KERNELS = os.environ.get("GPU_TEST_KERNELS", str(BUILD / "tests" / "test_kernels"))
PROBE = os.environ.get("GPU_TEST_PROBE", str(BUILD / "tests" / "amd_probe"))
REFUSAL = ("regard: no plan for ", "regard: no kernels for ")  # for a valid problem that a family does not solve
SECONDS = 300  # limit for one process


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS, errors="replace"
    )


def regard(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run(COMMAND, verb, *words)


def library() -> Path:
    """The library that belongs to the command."""
    folders = (Path(COMMAND).parent / "lib", Path(COMMAND).parent)
    return next(folder for folder in folders if (folder / "libregard.so.0").exists()) / "libregard.so.0"


@lru_cache
def info() -> dict[str, Any]:
    return json.loads(regard("info", "--json").stdout)


GPUS = info()["gpus"]
KIND = GPUS[0]["kind"] if GPUS else ""  # of their targets; conftest.py refuses to run with none, or with two
# The families of Hopper's own kernels and of the portable ones.
FAMILIES = ("sm90_forward", "portable_forward") if KIND == "cuda" else ("portable_forward",)
LATENT_FAMILIES = (*FAMILIES, "sm90_latent") if KIND == "cuda" else FAMILIES
BACKWARD_FAMILIES = tuple(family.replace("forward", "backward") for family in FAMILIES)


@lru_cache
def targets() -> list[str]:
    """Targets that this machine's GPU can run, best first."""
    return [row["name"] for row in info()["targets"] if row["kind"] == KIND and row["runs_here"]]


def families_of(problem: str) -> tuple[str, ...]:
    if problem.startswith("bwd "):
        return BACKWARD_FAMILIES
    return LATENT_FAMILIES if " latent" in problem else FAMILIES


def run_with_oracle(target: str, family: str, problem: str) -> subprocess.CompletedProcess[str]:
    return regard("run", problem, f"--target={target}", f"--family={family}", "--repeat=0", "--json")


def problem_rows(problems: list[str]) -> list[tuple[str, str, str]]:
    """(target, family, problem) for the best target and each family that may solve a problem."""
    return [(target, family, text) for target in targets()[:1] for text in problems for family in families_of(text)]


def check_outputs(
    done: subprocess.CompletedProcess[str], family: str, record_property: Callable[[str, object], None]
) -> None:
    """Asserts that what a process of run_with_oracle computed is right; skips what Hopper's kernels do not solve."""
    if done.stderr.startswith(REFUSAL) and family.startswith("sm90_"):
        pytest.skip("refused by this family")
    assert done.returncode in (0, 1), done.stderr[-1500:] + done.stdout[-1500:]
    outputs = json.loads(done.stdout)["check"]["outputs"]
    wrong = {name: row for name, row in outputs.items() if not row["ok"]}
    assert not wrong, json.dumps(wrong)
    record_property("max_error", max(row["max_absolute"] for row in outputs.values()))


def part_and_test(nodeid: str) -> tuple[str, str]:
    """tests/gpu/test_matrix.py::test_kernels[row] is ("matrix", "test_kernels[row]"), whatever the row contains."""
    path, _, test = nodeid.partition("::")
    return Path(path).stem.removeprefix("test_"), test


@lru_cache
def sanitizers() -> dict[str, tuple[int, ...]]:
    """Each compute-sanitizer and its version: CUDA's, and that of the Python package nvidia-cuda-sanitizer-api."""
    of_python = (Path(path) / "nvidia/cu13/compute-sanitizer/compute-sanitizer" for path in sys.path)
    names = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer", *map(str, of_python))
    versions = {
        path: re.search(r"Version ([\d.]+)", run(path, "--version").stdout) for path in map(shutil.which, names) if path
    }
    return {path: tuple(map(int, found[1].strip(".").split("."))) for path, found in versions.items() if found}


def sanitizer() -> str | None:
    """The newest compute-sanitizer."""
    return max(sanitizers(), key=sanitizers().__getitem__, default=None)


class Crowd:
    """Does the work of a table's rows ahead, many at once: in separate processes, or while kernels compile."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.parameters = tuple(signature(work).parameters)
        self.futures: dict[Hashable, Future[Any]] = {}

    def start(self, given: dict[str, Any], pool: ThreadPoolExecutor) -> None:
        """Starts the row of a test that has the parameters of the work, and possibly others; tests may share a row."""
        if not set(self.parameters) <= set(given):
            return
        row = tuple(given[name] for name in self.parameters)
        if row not in self.futures:
            self.futures[row] = pool.submit(self.work, *row)

    def result(self, *row: Any) -> Any:
        return self.futures[row].result()
