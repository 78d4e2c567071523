"""The inner loops of the NEON kernels by the model of llvm-mca: products and cycles that a core would reach if memory
never made it wait. No figure is a measurement.

Reads the kernels that a build for AArch64 has compiled in, and compiles some of their sources with clang++ as well.
"""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LLVM = "-19"
CLANG = f"clang++{LLVM} --target=aarch64-linux-gnu"
QUICK = "-O1"  # for clang++ (src/compile/quick_options.cpp)
COMPILERS = ("g++", "clang++")

# The kernels that are modelled: the beginning and the end of the key.
FORWARD = {"fp32": ("cpu-neon cpu_forward", "fwd fp32 d=128"), "bf16": ("cpu-neon-bf16 cpu_forward", "fwd bf16 d=128")}
BACKWARD = {
    "fp32": ("cpu-neon cpu_backward", "bwd fp32 d=128"),
    "bf16": ("cpu-neon-bf16 cpu_backward", "bwd bf16 d=128"),
}
DECODE = ("cpu-neon-bf16 cpu_decode", "pack_gqa=8 | fwd bf16 d=128")

# One instruction of a product, and its multiply-adds.
FMLA = re.compile(r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[")
BFDOT = re.compile(r"bfdot\s+v\d+\.4s, v\d+\.8h, v\d+\.2h\[")
BFMMLA = re.compile(r"bfmmla\s")
MULTIPLY_ADDS = {FMLA: 4, BFDOT: 8, BFMMLA: 16}
PRODUCT = {"fp32": FMLA, "bf16": BFMMLA}
CORES = {"V2": "neoverse-v2", "N1": "neoverse-n1"}


@functools.cache
def cycles_of(code: str, core: str, rounds: int = 200) -> float:
    """Of one round, by the model of a core."""
    options = ["-march=aarch64", f"-mcpu={CORES[core]}", "-mattr=+bf16", f"-iterations={rounds}"]
    report = subprocess.run(
        [f"llvm-mca{LLVM}", *options], input=code, capture_output=True, text=True, check=True
    ).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", report)[1]) / rounds


@dataclass
class Loop:
    """An innermost loop."""

    function: str
    lines: list[str]

    def count(self, instruction: str | re.Pattern[str]) -> int:
        return sum(bool(re.match(instruction, line)) for line in self.lines)

    def cycles(self, core: str) -> float:
        code = (re.sub(r"0x[0-9a-f]+ <.*>", "loop", line) for line in self.lines)
        return cycles_of("\n".join(["loop:", *code]), core)

    def on_the_stack(self) -> list[str]:
        """The instructions that move a vector there or back."""
        return [line for line in self.lines if re.search(r"\b[qv]\d+\b.*\[(sp|x29)\b", line)]


def loops_of(object_file: Path) -> list[Loop]:
    """The innermost loops: from the target of a branch backwards to the branch, with no other branch between."""
    listing = subprocess.run(
        [f"llvm-objdump{LLVM}", "-d", "--no-show-raw-insn", "--mattr=+bf16", object_file],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found, function, lines, places = [], "", [], {}
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:", line):
            function, lines, places = head[1], [], {}
        if not (code := re.match(r"\s*([0-9a-f]+):\s+(.*)", line)):
            continue
        places[int(code[1], 16)] = len(lines)
        lines.append(re.sub(r"\s*//.*", "", code[2]).replace("\t", " "))
        branch = re.match(r"(?:b\.\w+|cbn?z|tbn?z|b) .*?0x([0-9a-f]+) <", lines[-1])
        if branch and int(branch[1], 16) in places:
            body = lines[places[int(branch[1], 16)] :]
            if not any(re.match(r"(b\.\w+|cbn?z|tbn?z|b|bl|blr|ret)\b", one) for one in body[:-1]):
                found.append(Loop(function, body))
    return found


class Kernel(NamedTuple):
    source: Path
    key: str
    options: list[str]  # of the compiler


def kernels(build: Path) -> list[Kernel]:
    """Those that a build has compiled in."""
    found = []
    for source in sorted((build / "built_in").glob("*.cpp")):
        with source.open() as file:
            command, key = file.readline(), file.readline()
        if command.startswith("// c++ "):
            options = command.removeprefix("// c++ ").partition(" -shared ")[0]
            found.append(Kernel(source, key.removeprefix("// ").rstrip(), shlex.split(options)))
    return found


def compiled_by_clang(kernel: Kernel, folder: Path) -> Path | None:
    """The object, or None if clang++ refuses the source."""
    made = folder / kernel.source.with_suffix(".o").name
    command = [*shlex.split(CLANG), *kernel.options, QUICK, "-c", "-o", made, kernel.source]
    done = subprocess.run(command, capture_output=True)
    return made if done.returncode == 0 else None


class Loops:
    """loops(kernel, compiler) of the kernels that a build has compiled in, each disassembled once."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.build, self.folder = build, folder  # `folder` gets the objects of clang++
        self.known: dict[tuple[tuple[str, str], str], list[Loop]] = {}

    def __call__(self, name: tuple[str, str], compiler: str) -> list[Loop]:
        if (name, compiler) not in self.known:
            begin, end = name
            named = (
                each
                for each in kernels(self.build)
                if each.key.startswith(f"{begin} ") and each.key.endswith(f" {end}")
            )
            if not (kernel := next(named, None)):
                missing = f"{self.build} has no kernel {begin!r} for {end!r}; ./dev test 'kernels for aarch64' makes it"
                raise LookupError(missing)
            made = kernel.source.with_suffix(".o") if compiler == "g++" else compiled_by_clang(kernel, self.folder)
            if made is None:
                raise LookupError(f"clang++ refuses the kernel {kernel.key!r}")
            self.known[name, compiler] = loops_of(made)
        return self.known[name, compiler]


def products(found: list[Loop], instruction: re.Pattern[str]) -> list[Loop]:
    """Those that multiply whole tiles of sums."""
    chosen = [loop for loop in found if loop.count(instruction) >= 16]
    assert chosen, "no loop of products was found"
    return chosen


def softmax(found: list[Loop]) -> Loop:
    (loop,) = [one for one in found if "softmax" in one.function and one.count("frintm")]
    return loop


def scores_of_decode(found: list[Loop]) -> list[Loop]:
    return [loop for loop in found if "compute_scores" in loop.function]


def worst_rate(found: list[Loop], instruction: re.Pattern[str], core: str) -> float:
    return min(loop.count(instruction) / loop.cycles(core) for loop in products(found, instruction))


def cycles_per_score(found: list[Loop], core: str) -> float:
    loop = softmax(found)
    return loop.cycles(core) / (4 * loop.count("frintm"))


def operations_per_cycle(found: list[Loop], dtype: str, core: str) -> float:
    """Both products of forward and the softmax, d = 128: a score takes 2 * 128 multiply-adds."""
    instruction = PRODUCT[dtype]
    rate = worst_rate(found, instruction, core) * MULTIPLY_ADDS[instruction]
    return 512 / (256 / rate + cycles_per_score(found, core))


def on_the_stack(loops: Loops, dtype: str, compiler: str) -> list[str]:
    """Of the softmax and of the products, forward and backward."""
    forward, backward = loops(FORWARD[dtype], compiler), loops(BACKWARD[dtype], compiler)
    inner = [softmax(forward), *products(forward, PRODUCT[dtype]), *products(backward, PRODUCT[dtype])]
    return [line for loop in inner for line in loop.on_the_stack()]
