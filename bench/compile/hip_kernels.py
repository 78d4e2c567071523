#!/usr/bin/env python3
"""CPU seconds of cold compiles of kernels for AMD GPUs: a sample of what the profiles name, forward and backward.

    python -m bench.compile.hip_kernels [--kernels N] [--targets T,..] [--profiles P,..] [--build FOLDER] [--out FILE]

Needs a build with -DREGARD_BENCH=ON and a clang for AMD GPUs, but no GPU. Each kernel is compiled by a process of its
own, whose CPU time includes that of clang; other load on the machine changes it little. Writes a line of JSON per
kernel to bench/results/hip-<machine>-<date>.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.amd.report import TARGETS
from bench.compile.cuda_kernels import spread
from bench.shared import machine, results
from bench.shared.progress import counted


def kernels_of_profiles(build: Path, target: str, profiles: list[str]) -> list[str]:
    found: set[str] = set()
    for profile in profiles:
        command = [build / "regard", "list", f"--target={target}", f"--profile={profile}", "--json"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True)
        found |= {row["kernel"] for row in json.loads(listed.stdout)}
    return sorted(found)


def compiled(build: Path, kernel: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as out:
        environment = os.environ | {"REGARD_CACHE_DIR": cache}
        process = subprocess.Popen([build / "bench/bench_compile", kernel], env=environment, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode()
    if process.returncode != 0 or '"tier":"compile"' not in said:
        sys.exit(f"{kernel} was not compiled: {said.strip()}")
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 3), "peak_bytes": used.ru_maxrss * 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=15, help="of each target")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--profiles", default="flash,transformer_engine")
    parser.add_argument("--build", type=Path, default=machine.ROOT / "build/release")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    chosen = []
    for target in options.targets.split(","):
        kernels = kernels_of_profiles(options.build, target, options.profiles.split(","))
        chosen += [(target, kernel) for kernel in spread(kernels, options.kernels)]
    origin = machine.origin(machine.cpu_model())
    lines = []
    for target, kernel in counted(chosen, lambda item: item[1]):
        lines.append({"series": "hip", "cell": target, "kernel": kernel} | compiled(options.build, kernel) | origin)
    out = options.out or results.BENCH / f"hip-{machine.cpu_slug(1)}-{origin['date']}.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds = [line["cpu_seconds"] for line in lines]
    print(f"{len(lines)} compiles: median {median(seconds):.2f} CPU s, worst {max(seconds):.2f} CPU s; {out}")


if __name__ == "__main__":
    main()
