#!/usr/bin/env python3
"""Cold compiles of the CUDA kernels that the profiles name: a sample of the forward kernels, and all kernels of some
backward problems, which have several stages. Each runs in a separate process, one after the other.

    python -m bench.compile.cuda_kernels [--kernels N] [--targets T,..] [--profiles P,..] [--build FOLDER] [--out FILE]

Needs a build with -DREGARD_BENCH=ON and NVRTC (REGARD_NVRTC, or the package nvidia-cuda-nvrtc of this Python), but no
GPU. Writes a line of JSON per kernel or problem to bench/results/compile-<machine>-<date>.jsonl: wall-clock seconds of
the whole call (rendering, compiling, storing) and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from statistics import median

from bench.shared import machine, results
from bench.shared.progress import counted

BACKWARD = [
    f"bwd bf16 b=8 h=16 s=2048 {dims} {words}".strip()
    for dims in ("d=64", "d=128", "d=256", "d=192 dv=128")
    for words in (
        "",
        "mask=causal",
        "softcap=30 mask=causal",
        "dropout=0.1 mask=causal",
        "bias=bh dbias",
        "bias=alibi mask=causal deterministic",
    )
]


def stages_of(build: Path, target: str, problem: str) -> list[str]:
    command = [build / "regard", "explain", problem, f"--target={target}", "--json"]
    explained = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [stage["kernel"] for stage in explained["plan"]["stages"]]


def kernels_of_profiles(build: Path, target: str, profiles: list[str]) -> list[str]:
    """The forward kernels of the profiles."""
    found: set[str] = set()
    for profile in profiles:
        command = [build / "regard", "list", f"--target={target}", f"--profile={profile}", "--json"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True)
        found |= {row["kernel"] for row in json.loads(listed.stdout) if " | fwd " in row["kernel"]}
    return sorted(found)


def spread(items: list[str], count: int) -> list[str]:
    """`count` of the items, evenly spaced over the list."""
    return [items[i * len(items) // count] for i in range(count)] if count < len(items) else items


def nvrtc() -> str:
    """The path of NVRTC. Without it nvcc would be measured, whose time and memory differ."""
    found = os.environ.get("REGARD_NVRTC") or str(Path(sysconfig.get_path("purelib")) / "nvidia/cu13/lib")
    if not Path(found).exists():
        sys.exit(f"NVRTC is not at {found}; set REGARD_NVRTC, or install nvidia-cuda-nvrtc for {sys.executable}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=25, help="of forward, of each target")
    parser.add_argument("--targets", default="sm_90a,sm_80")
    parser.add_argument("--profiles", default="flash,pytorch,transformer_engine")
    parser.add_argument("--build", type=Path, default=machine.ROOT / "build/release")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    origin = machine.origin(machine.cpu_model())
    name = f"compile-{machine.cpu_slug(1)}-{origin['date']}.jsonl"
    out = options.out or results.BENCH / name
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"REGARD_NVRTC": nvrtc()}
        chosen: list[tuple[str, dict[str, str], list[str]]] = []
        for target in options.targets.split(","):
            kernels = spread(kernels_of_profiles(options.build, target, options.profiles.split(",")), options.kernels)
            chosen += [(target, {"kernel": kernel}, [kernel]) for kernel in kernels]
            for problem in BACKWARD:
                stages = stages_of(options.build, target, problem)
                main = next(kernel for kernel in stages if "_backward " in kernel)
                chosen.append((target, {"kernel": main, "problem": problem}, stages))
        for number, (target, what, kernels) in enumerate(counted(chosen, lambda item: item[1]["kernel"])):
            cold = environment | {"REGARD_CACHE_DIR": f"{cache}/{number}"}  # problems share kernels
            command = [options.build / "bench/bench_compile", *kernels]
            done = subprocess.run(command, env=cold, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{what['kernel']}: {done.stderr.strip()}")
            measured = json.loads(done.stdout)
            if any(prepared["tier"] != "compile" for prepared in measured["prepared"]):
                sys.exit(f"{what['kernel']} was not compiled")
            figures = {"seconds": measured["seconds"], "peak_bytes": measured["peak_bytes"]}
            lines.append({"series": "compile", "cell": target} | what | figures | origin)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds = [line["seconds"] for line in lines]
    print(f"{len(lines)} compiles: median {median(seconds):.2f} s, worst {max(seconds):.2f} s; {out}")


if __name__ == "__main__":
    main()
