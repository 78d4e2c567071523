#!/usr/bin/env python3
"""Compares two builds: whether they make the same plans and compile the same machine code. For changes that must not
affect either: names, folders, comments, types of host code.

    tools/compare_builds.py OLD NEW [--problems N] [--seed S] [--kernels N] [--targets T,..]

OLD and NEW are build folders (with `regard` and `libregard.so`). Plans: random problems on each target, as JSON;
refused problems count as equal if both builds refuse them, as the sentences may change. Machine code: an evenly spaced
sample of the kernels of the profiles, compiled by each build with NVRTC (REGARD_NVRTC) or the host compiler; the code
sections, and for GPUs the number of registers, must be identical. No GPU is needed. The exit status is 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TARGETS = [
    "cpu-generic",
    "cpu-avx2",
    "cpu-avx512",
    "cpu-amx",
    "cpu-amx-emulated",
    "sm_75",
    "sm_80",
    "sm_89",
    "sm_90a",
    "sm_100",
    "sm_120",
]


def random_problem(choose: random.Random) -> str:
    """A problem text; most are valid."""

    def sometimes(chance: float, *words: str) -> list[str]:
        return [choose.choice(words)] if choose.random() < chance else []

    backward = choose.random() < 0.4
    heads = choose.choice([1, 2, 4, 8, 16, 32, 64])
    shared = choose.choice([d for d in (1, 2, 4, 8, 16, 32, 64) if heads % d == 0])
    dim = choose.choice([1, 7, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 256, 320, 512])
    long = choose.choice([1, 2, 3, 17, 64, 100, 128, 500, 1024, 2048, 4096, 16384])
    keys = choose.choice([long, long, long, 1, 77, 1024, 8192, 65536])
    words = ["bwd" if backward else "fwd", choose.choice(["bf16", "bf16", "fp16", "fp32", "fp8"])]
    words += [f"b={choose.choice([1, 1, 2, 4, 16, 64])}", f"hq={heads}", f"hk={heads // shared}"]
    words += [f"sq={long}", f"sk={keys}", f"d={dim}"]
    words += sometimes(0.15, "dv=64", "dv=128", "dv=33")
    mask = choose.choice(["", "", "causal", "causal", "causal_top_left", "window"])
    if mask == "window":
        left, right = choose.choice([0, 3, 64, 500, 4000]), choose.choice([0, 5, 64])
        mask += f":{left},{right}" + choose.choice(["", ",top_left", ",sink=4"])
    words += [f"mask={mask}"] if mask else []
    words += sometimes(0.2, "bias=bh", "bias=11", "bias=alibi", "bias=1h", "bias=alibi_b")
    words += sometimes(0.1, "softcap=30", "softcap=8")
    words += sometimes(0.1, "dropout=0.1", "dropout=0.5")
    words += sometimes(0.15, "sink")
    words += sometimes(0.15, "layout=bhsd", "layout=sbhd", "layout=bshd")
    words += sometimes(0.15, "varlen", "lengths")
    words += ["lse"] if not backward and choose.random() < 0.4 else []
    words += sometimes(0.2, "deterministic") if backward else sometimes(0.1, "splits=2", "splits=4", "splits=1")
    return " ".join(words)


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("target", ctypes.c_char_p),
        ("family", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
    ]


def open_library(build: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(build / "libregard.so"))
    library.regard_status_message.restype = ctypes.c_char_p
    return library


def print_plans(build: Path, problems: int, seed: int, targets: list[str]) -> None:
    """Prints a line per problem and target: the plan, or that there is none."""
    library = open_library(build)
    choose = random.Random(seed)
    for _ in range(problems):
        text = random_problem(choose)
        problem = ctypes.c_void_p()
        if library.regard_problem_parse(text.encode(), ctypes.byref(problem)):
            print(json.dumps([text, "", "no problem"]))
            continue
        for target in targets:
            options = PlanOptions(ctypes.sizeof(PlanOptions), target.encode(), None, 8)
            explained = ctypes.c_char_p()
            status = library.regard_explain(problem, ctypes.byref(options), b"json", ctypes.byref(explained))
            answer = json.loads(explained.value).get("plan") if status == 0 else None
            if answer is not None:
                answer = {key: value for key, value in answer.items() if not key.endswith("reason")}
            library.regard_string_free(explained)
            print(json.dumps([text, target, answer]))
        library.regard_problem_destroy(problem)


def plans_of(build: Path, arguments: argparse.Namespace) -> list[str]:
    words = [f"--problems={arguments.problems}", f"--seed={arguments.seed}", f"--targets={','.join(arguments.targets)}"]
    command = [sys.executable, __file__, str(build), str(build), "--print-plans", *words]
    environment = os.environ | {"REGARD_JIT": "off", "REGARD_CACHE_DIR": "/nonexistent"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()


def kernels_of_profiles(build: Path, target: str) -> list[str]:
    """The kernels of the profiles that are compiled on first use."""
    found: set[str] = set()
    for profile in ("flash", "pytorch", "transformer_engine"):
        command = [build / "regard", "list", f"--target={target}", f"--profile={profile}", "--json"]
        listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found |= {row["kernel"] for row in listed if row["tier"] == "compile"}
    return sorted(found)


def spread(items: list[str], count: int) -> list[str]:
    """`count` of the items, evenly spaced over the list."""
    return [items[i * len(items) // count] for i in range(count)] if count < len(items) else items


def code_in(elf: bytes) -> str:
    """A digest of the code sections of an ELF file, without the section names."""
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]

    def name_of(header: tuple[int, ...]) -> bytes:
        begin = headers[names][4] + header[0]
        return elf[begin : elf.index(b"\0", begin)]

    digest = hashlib.sha256()
    found = False
    for header in headers:
        if name_of(header).startswith(b".text"):
            digest.update(elf[header[4] : header[4] + header[5]])
            digest.update(bytes([header[7] >> 24]))  # of a cubin: the number of registers
            found |= header[5] > 0
    if not found:
        raise RuntimeError("an entry without code")
    return digest.hexdigest()


def compile_kernels(build: Path) -> None:
    """Compiles the kernels named on standard input, one per line, into the cache; prints why one is not compiled."""
    library = open_library(build)
    for kernel in sys.stdin.read().splitlines():
        answer = ctypes.c_char_p()
        if library.regard_prepare_kernel(kernel.encode(), ctypes.byref(answer)):
            print(f"{kernel}: {library.regard_status_message().decode()}", flush=True)


def code_of(build: Path, kernels: list[str]) -> dict[str, str]:
    """By kernel: a digest of its code, compiled into a separate cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"REGARD_CACHE_DIR": folder}
        command = [sys.executable, __file__, str(build), str(build), "--compile-kernels"]
        subprocess.run(command, input="\n".join(kernels), text=True, check=True, env=environment)
        codes: dict[str, str] = {}
        for path in Path(folder).glob("*.regard"):
            data = path.read_bytes()
            manifest, payload = struct.unpack_from("<QQ", data, 48)
            about = json.loads(data[64 : 64 + manifest])
            if "kernel" in about:  # other entries are about compilers
                codes[about["kernel"]] = code_in(data[64 + manifest : 64 + manifest + payload])
        return codes


def compare_plans(arguments: argparse.Namespace) -> int:
    old, new = (plans_of(build, arguments) for build in (arguments.old, arguments.new))
    planned = sum(json.loads(line)[2] not in (None, "no problem") for line in old)
    differ = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    for one, other in differ[:5]:
        print(f"old: {one}\nnew: {other}")
    print(f"plans: {len(old)} answers, {planned} of them plans, {len(differ)} differ")
    return len(differ)


def compare_code(arguments: argparse.Namespace) -> int:
    each = -(-arguments.kernels // len(arguments.targets))
    count = different = 0
    for target in arguments.targets:
        kernels = spread(kernels_of_profiles(arguments.old, target), each)
        old, new = (code_of(build, kernels) for build in (arguments.old, arguments.new))
        for kernel in kernels:
            if old.get(kernel) != new.get(kernel):
                different += 1
                print(f"differs: {kernel}")
        count += len(old)
        print(f"{target}: {len(old)} kernels compared", flush=True)
    print(f"machine code: {count} kernels, {different} differ")
    return different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=60)
    parser.add_argument("--targets", type=lambda text: text.split(","), default=TARGETS)
    # One build's half of the work, in a process of its own: a process reads its settings once.
    parser.add_argument("--print-plans", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile-kernels", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.print_plans:
        print_plans(arguments.old, arguments.problems, arguments.seed, arguments.targets)
        return
    if arguments.compile_kernels:
        compile_kernels(arguments.old)
        return
    differ = compare_plans(arguments) if arguments.problems else 0
    differ += compare_code(arguments) if arguments.kernels else 0
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
