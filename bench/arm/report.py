#!/usr/bin/env python3
"""What can be said of the kernels and wheels for AArch64 on another machine: nothing is timed.

    python -m bench.arm.report [--kernels FOLDER] [--build FOLDER] [--dist FOLDER] [--out FILE]

Counts in the inner loops of the kernels (bench/arm/figures.py), compiles all kernels with clang++, which takes some
minutes, and asks the plan how often decode reads K and V. The kernels are those that ./dev test 'kernels for aarch64'
made. After ./dev test --whole aarch64 it also runs the command on an emulator, reads the reports of the tests there,
and weighs the wheels of dist/; what is missing is left out. Writes bench/results/arm-<compiler>-<date>.jsonl, from
which ./dev bench tables draws a part of docs/results/cpu.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.arm import loops as model
from bench.arm.figures import FIGURES
from bench.shared import machine, results
from bench.shared.progress import counted
from tools.check_wheel import LARGEST
from tools.count_tests import outcome

HOST = machine.ROOT / "build/release/regard"
BACKWARD = "bwd fp32 h=1 s=40 d=64 mask=causal"
QUERY_HEADS = 8  # for each K/V head
TARGETS = ("cpu-neon", "cpu-neon-bf16")


def of_loops(loops: model.Loops) -> Iterator[dict[str, Any]]:
    for name, figure in FIGURES.items():
        values = {compiler: [round(value, 2) for value in figure.of(loops, compiler)] for compiler in model.COMPILERS}
        yield {"cell": name, "values": values}


def found(cell: str, goal: str, text: str, met: bool) -> dict[str, Any]:
    return {"cell": cell, "goal": goal, "found": text, "met": met}


def compiled_by_clang(build: Path, folder: Path) -> dict[str, Any]:
    every = model.kernels(build)
    done = sum(bool(model.compiled_by_clang(kernel, folder)) for kernel in counted(every, lambda kernel: kernel.key))
    return found("kernels of the library that clang++ compiles", "all", f"{done} of {len(every)}", done == len(every))


def reads_of_decode(target: str) -> float:
    """How often each number of K and V is read: a block reads those of its heads in its part of the keys."""
    heads = 4
    problem = f"fwd bf16 hq={QUERY_HEADS * heads} hk={heads} sq=1 sk=8192 d=128"
    command = [HOST, "explain", *problem.split(), f"--target={target}", "--threads=4", "--json"]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["plan"]
    stage = next(stage for stage in plan["stages"] if " cpu_decode " in stage["kernel"])
    reads: float = stage["grid"] * stage["schedule"]["heads"] / plan["splits"] / heads
    return reads


def of_decode(target: str) -> dict[str, Any]:
    reads = reads_of_decode(target)
    cell = f"how often decode of `{target}` reads K and V, {QUERY_HEADS} query heads for each of their heads"
    return found(cell, "once", "once" if reads == 1 else f"{reads:g} times", reads == 1)


def on_demand(build: Path, compiler: str) -> dict[str, Any]:
    """Whether the emulated command compiles `cpu_backward` and computes with it."""
    root, wrapper = machine.ROOT / "build/arm64", build / "compilers" / {"g++": "c++"}.get(compiler, compiler)
    settings = {"REGARD_BUILT_IN": "off", "REGARD_CACHE": "off", "REGARD_CXX": str(wrapper)}
    command = ["qemu-aarch64", "-L", root, build / "regard", "run", *BACKWARD.split(), "--repeat=0", "--json"]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], **settings}, capture_output=True, text=True)
    stages = json.loads(done.stdout)["plan"]["stages"] if done.returncode == 0 else []
    loaded = any(" cpu_backward " in stage["kernel"] and stage["tier"] == "compile" for stage in stages)
    cell = f"`cpu_backward` that {compiler} compiles on demand loads, on an emulator"
    return found(cell, "yes", "yes" if loaded else "no", loaded)


def tested(reports: Path) -> dict[str, Any]:
    cases = [case for path in sorted(reports.rglob("*.xml")) for case in ElementTree.parse(path).iter("testcase")]
    outcomes = Counter(outcome(case) for case in cases)
    names = [f"`{case.get('classname')}.{case.get('name')}`" for case in cases if outcome(case) == "skipped"]
    skipped = list(dict.fromkeys(names))  # kernel tests run several times
    text = f"{outcomes['passed']} passed, {outcomes['failed']} failed, {len(skipped)} skipped"
    text += f": {', '.join(skipped)}" if skipped else ""
    return found("tests on an emulator", "all pass; skips are named", text, not outcomes["failed"])


def wheels(dist: Path) -> Iterator[dict[str, Any]]:
    for wheel in sorted(dist.glob("regard-*_aarch64.whl")):
        python, _, tag = wheel.stem.split("-")[-3:]
        size = wheel.stat().st_size
        yield found(
            f"wheel for `{python}`", f"≤ {LARGEST / 1e6:g} MB", f"{size / 1e6:.1f} MB, `{tag}`", size <= LARGEST
        )


def reported(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    yield from of_loops(model.Loops(options.kernels, folder))
    yield compiled_by_clang(options.kernels, folder)
    yield from map(of_decode, TARGETS)
    if (options.build / "regard").exists():
        yield from (on_demand(options.build, compiler) for compiler in model.COMPILERS)
    if (machine.ROOT / "build/reports/aarch64").is_dir():
        yield tested(machine.ROOT / "build/reports/aarch64")
    yield from wheels(options.dist)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, default=machine.ROOT / "build/aarch64-kernels")
    parser.add_argument("--build", type=Path, default=machine.ROOT / "build/aarch64")
    parser.add_argument("--dist", type=Path, default=machine.ROOT / "dist")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not model.kernels(options.kernels):
        sys.exit(f"{options.kernels} has no kernels; run ./dev test 'kernels for aarch64' first")

    version = subprocess.run(
        ["aarch64-linux-gnu-g++", "-dumpversion"], check=True, capture_output=True, text=True
    ).stdout
    origin = machine.origin(f"g++ {version.strip()}")
    with tempfile.TemporaryDirectory() as folder:
        lines = [{"series": "arm", **line, **origin} for line in reported(options, Path(folder))]
    out = options.out or results.BENCH / f"arm-{machine.slug(origin['machine'])}-{origin['date']}.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(out)


if __name__ == "__main__":
    main()
