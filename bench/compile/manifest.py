#!/usr/bin/env python3
"""Measures what an ahead-of-time build of kernels costs, and what its bundle costs the program that uses it.

    python -m bench.compile.manifest [--manifest FILE] [--jobs N] [--build FOLDER] [--out FILE]

Needs NVRTC (REGARD_NVRTC, or the package nvidia-cuda-nvrtc of this Python) for the CUDA targets, but no GPU. Writes a
line of JSON per target to bench/results/build-<machine>-<date>.jsonl (kernels, CPU seconds of their compiles, bytes,
compressed bytes), one for the whole build (wall and CPU seconds, peak memory of one process and of all together), and
one for a bundle of 1,000 kernels: how long it takes to open, how many bytes of it are read, and how long the kernel of
a first call takes, compared with the same kernel from the cache. Copies of the manifest's kernels make up what it lacks
of the 1,000.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.compile.cuda_kernels import nvrtc
from bench.shared import machine, results
from bench.shared.progress import counted

MANIFEST = Path(__file__).with_name("transformer_engine.toml")


def memory_of_tree(root: int) -> int:
    """Resident bytes of a process and all its descendants; shared pages count once per process."""
    children: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            pages[int(folder.name)] = int((folder / "statm").read_text().split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(int(stat[1]), []).append(int(folder.name))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        total += pages.get(process, 0)
        waiting += children.get(process, [])
    return total * os.sysconf("SC_PAGE_SIZE")


def build(
    options: argparse.Namespace, manifest: Path, folder: Path, jobs: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of a build, and the time and memory that it took."""
    command = [options.build / "regard", "build", manifest, "--output", folder, f"--jobs={jobs}", "--json"]
    before, start = os.times(), time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, env=os.environ | {"REGARD_NVRTC": nvrtc()})
        peak = 0
        ended = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.wait(0.1):
                peak = max(peak, memory_of_tree(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        ended.set()
        watcher.join()
        out.seek(0)
        report = json.loads(out.read() or "{}")
    after = os.times()
    if code != 0:
        sys.exit(f"{manifest} was not built: exit code {code}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return report, {"seconds": time.monotonic() - start, "cpu_seconds": cpu, "jobs": jobs, "peak_bytes": peak}


def of_target(target: str, report: dict[str, Any], compressed: dict[str, int]) -> dict[str, Any]:
    kernels = [kernel for kernel in report["kernels"] if kernel["target"] == target]
    return {
        "series": "build",
        "cell": target,
        "kernels": len(kernels),
        "compile_seconds": sum(kernel["seconds"] for kernel in kernels),
        "slowest_seconds": max(kernel["seconds"] for kernel in kernels),
        "bytes": sum(kernel["bytes"] for kernel in kernels),
        "packed_bytes": sum(compressed[kernel["kernel"]] for kernel in kernels),
    }


def compressed_bytes(options: argparse.Namespace, bundle: str) -> dict[str, int]:
    listed = subprocess.run(
        [options.build / "regard", "bundle", "list", bundle, "--json"], check=True, capture_output=True
    )
    return {row["name"]: row["packed_bytes"] for row in json.loads(listed.stdout)["kernels"]}


OPEN = """
import json, os, time, regard
regard.info()
def read(): return int(open("/proc/self/io").read().split()[1])
before, start = read(), time.perf_counter()
regard.add_bundle({bundle!r})
opened, bytes_read = time.perf_counter() - start, read() - before
stage = lambda plan: (plan.prepare(), json.loads(plan.json)["stages"][0])[1]
done = stage(regard.plan({problem!r}, target="cpu-avx2"))
print(json.dumps([opened, bytes_read, done["tier"], done["seconds"]]))
"""


def use(options: argparse.Namespace, bundle: str) -> dict[str, Any]:
    """The minimum over ten processes, so the bundle is in the file cache."""
    problem = "fwd fp16 b=1 h=1 s=64 d=256"
    samples: dict[str, list[list[Any]]] = {"bundle": [], "cache": []}
    with tempfile.TemporaryDirectory() as cache:
        for turn in counted(range(11), lambda turn: f"processes that use a bundle: {turn}"):
            for tier, samples_of in samples.items():
                environment = os.environ | {
                    "PYTHONPATH": str(options.build / "python"),
                    "REGARD_CACHE_DIR": cache,
                    "REGARD_CPU_TARGET": "cpu-avx2",
                }
                code = OPEN.format(bundle=bundle, problem=problem)
                if tier == "cache":
                    code = code.replace("regard.add_bundle(", "str(")
                done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
                if turn > 0:  # the first one compiles for the cache
                    samples_of.append(json.loads(done.stdout))
    for tier, samples_of in samples.items():
        if {sample[2] for sample in samples_of} != {tier}:
            sys.exit(f"a kernel came from {samples_of[0][2]} and not from the {tier}")
    least = {tier: min(sample[3] for sample in samples_of) for tier, samples_of in samples.items()}
    return {
        "series": "build",
        "cell": "use",
        "kernels": len(compressed_bytes(options, bundle)),
        "bundle_bytes": os.path.getsize(bundle),
        "open_ms": 1000 * min(sample[0] for sample in samples["bundle"]),
        "read_bytes": samples["bundle"][0][1],
        "first_kernel_ms": {tier: 1000 * seconds for tier, seconds in least.items()},
    }


def with_many_kernels(bundle: Path, count: int) -> Path:
    """The bundle filled up to `count` kernels with renamed copies of its own (docs/bundles.md has the layout)."""
    data = bundle.read_bytes()
    start, size = struct.unpack_from("<QQ", data, 16)
    index = data[start : start + size]
    kernels, about = struct.unpack_from("<QQ", index)
    description = index[16 + 128 * kernels :][:about]
    name_at, found = 16 + 128 * kernels + about, []
    for row in range(kernels):
        digests = index[16 + 128 * row :][:96]
        offset, compressed, uncompressed, length = struct.unpack_from("<QQQQ", index, 16 + 128 * row + 96)
        name = index[name_at : name_at + length]
        name_at += length
        found.append((name, digests, data[offset : offset + compressed], uncompressed))
    copies = [(b"%s copy=%d" % (name, i), *rest) for i in range(1, 1 + count // kernels) for name, *rest in found]
    everything = sorted(found + copies[: count - kernels])
    rows, names, body, offset = b"", b"", b"", 64
    for name, digests, compressed_kernel, uncompressed in everything:
        rows += digests + struct.pack("<QQQQ", offset, len(compressed_kernel), uncompressed, len(name))
        names += name
        body += compressed_kernel
        offset += len(compressed_kernel)
    index = struct.pack("<QQ", len(everything), about) + rows + description + names
    head = data[:16] + struct.pack("<QQ", 64 + len(body), len(index)) + hashlib.sha256(index).digest()
    made = bundle.with_name("many.bundle")
    made.write_bytes(head + body + index)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", type=Path, default=machine.ROOT / "build/release")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    origin = machine.origin(machine.cpu_model())
    out = options.out or results.BENCH / f"build-{machine.cpu_slug(options.jobs)}-{origin['date']}.jsonl"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report, took = build(options, options.manifest, folder / "te", options.jobs)
        bundle = str(report["outputs"][0]["path"])
        compressed = compressed_bytes(options, bundle)
        targets = sorted({kernel["target"] for kernel in report["kernels"]})
        lines = [of_target(target, report, compressed) for target in targets]
        lines.append(
            {"series": "build", "cell": "all", "kernels": report["count"], "bundle_bytes": os.path.getsize(bundle)}
            | took
        )
        lines.append(use(options, str(with_many_kernels(Path(bundle), 1000))))
    out.write_text("".join(json.dumps(line | origin) + "\n" for line in lines))
    for line in lines:
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in line.items()})
    print(out)


if __name__ == "__main__":
    main()
