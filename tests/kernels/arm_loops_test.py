"""The inner loops of the NEON kernels by the model of llvm-mca: products and cycles that a core would reach if memory
never made it wait. No figure is a measurement.

Reads the kernels that a build for AArch64 has compiled in (BUILD_DIR, else build/aarch64-kernels), and compiles some of
their sources with clang++ as well.
"""

import functools
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = Path(os.environ.get("BUILD_DIR", ROOT / "build/aarch64-kernels")) / "built_in"
LLVM = "-19"
CLANG = f"clang++{LLVM} --target=aarch64-linux-gnu"
QUICK = "-O1"  # for clang++ (src/compile/quick_options.cpp)

# The kernels that are modelled: the beginning and the end of the key.
FORWARD = {"fp32": ("cpu-neon cpu_forward", "fwd fp32 d=128"), "bf16": ("cpu-neon-bf16 cpu_forward", "fwd bf16 d=128")}
BACKWARD = {
    "fp32": ("cpu-neon cpu_backward", "bwd fp32 d=128"),
    "bf16": ("cpu-neon-bf16 cpu_backward", "bwd bf16 d=128"),
}
DECODE = {"bf16": ("cpu-neon-bf16 cpu_decode", "pack_gqa=8 | fwd bf16 d=128")}

# One instruction of a product, and its multiply-adds.
FMLA = re.compile(r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[")
BFDOT = re.compile(r"bfdot\s+v\d+\.4s, v\d+\.8h, v\d+\.2h\[")
BFMMLA = re.compile(r"bfmmla\s")
MULTIPLY_ADDS = {FMLA: 4, BFDOT: 8, BFMMLA: 16}
PRODUCT = {"fp32": FMLA, "bf16": BFMMLA}


@functools.cache
def cycles_of(code, core, rounds=200):
    """Of one round, by the model of a core."""
    options = ["-march=aarch64", f"-mcpu={core}", "-mattr=+bf16", f"-iterations={rounds}"]
    report = subprocess.run(
        [f"llvm-mca{LLVM}", *options], input=code, capture_output=True, text=True, check=True
    ).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", report)[1]) / rounds


@dataclass
class Loop:
    """An innermost loop."""

    function: str
    lines: list[str]

    def count(self, instruction):
        return sum(bool(re.match(instruction, line)) for line in self.lines)

    def cycles(self, core):
        return cycles_of(
            "\n".join(["loop:", *(re.sub(r"0x[0-9a-f]+ <.*>", "loop", line) for line in self.lines)]), core
        )


def loops_of(object_file):
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


def source_of(kernel):
    begin, end = kernel
    for source in sorted(BUILT_IN.glob("*.cpp")):
        with source.open() as file:
            command, key = file.readline(), file.readline()
        if key.startswith(f"// {begin} ") and key.rstrip().endswith(f" {end}"):
            return source, command.removeprefix("// c++ ").partition(" -shared ")[0]
    raise LookupError(f"{BUILT_IN} has no kernel {begin!r} for {end!r}; ./dev test 'kernels for aarch64' makes it")


@pytest.fixture(scope="session")
def loops(tmp_path_factory):
    """loops(kernel, compiler), each kernel disassembled once."""
    known = {}

    def find(kernel, compiler="g++"):
        if (kernel, compiler) not in known:
            source, options = source_of(kernel)
            made = source.with_suffix(".o")
            if compiler == "clang++":
                made = tmp_path_factory.mktemp("clang") / made.name
                subprocess.run([*shlex.split(f"{CLANG} {options} {QUICK} -c -o"), made, source], check=True)
            known[kernel, compiler] = loops_of(made)
        return known[kernel, compiler]

    return find


def products(found, instruction):
    """Those that multiply whole tiles of sums."""
    chosen = [loop for loop in found if loop.count(instruction) >= 16]
    assert chosen, "no loop of products was found"
    return chosen


def softmax(found):
    (loop,) = [one for one in found if "softmax" in one.function and one.count("frintm")]
    return loop


def worst_rate(found, instruction, core):
    return min(loop.count(instruction) / loop.cycles(core) for loop in products(found, instruction))


def cycles_per_score(found, core):
    loop = softmax(found)
    return loop.cycles(core) / (4 * loop.count("frintm"))


def operations_per_cycle(found, dtype, core):
    """Both products of forward and the softmax, d = 128: a score takes 2 * 128 multiply-adds."""
    instruction = PRODUCT[dtype]
    rate = worst_rate(found, instruction, core) * MULTIPLY_ADDS[instruction]
    return 512 / (256 / rate + cycles_per_score(found, core))


def scores_of_decode(found):
    return [loop for loop in found if "compute_scores" in loop.function]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("kernel", [FORWARD["fp32"], BACKWARD["fp32"]], ids=["fwd", "bwd"])
@pytest.mark.parametrize(("core", "least"), [("neoverse-v2", 3.8), ("neoverse-n1", 1.9)])
def test_multiply_adds_per_cycle(loops, compiler, kernel, core, least):
    assert worst_rate(loops(kernel, compiler), FMLA, core) >= least


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("kernel", [FORWARD["bf16"], BACKWARD["bf16"]], ids=["fwd", "bwd"])
def test_matrix_products_per_cycle(loops, compiler, kernel):
    assert worst_rate(loops(kernel, compiler), BFMMLA, "neoverse-v2") >= 3.6


def test_products_of_pairs_per_cycle(loops):
    """Of decode, whose 8 rows by 8 keys are a whole tile of sums."""
    assert worst_rate(scores_of_decode(loops(DECODE["bf16"])), BFDOT, "neoverse-v2") >= 3.8


@pytest.mark.parametrize("dtype", FORWARD)
def test_softmax_cycles_per_score(loops, dtype):
    assert cycles_per_score(loops(FORWARD[dtype]), "neoverse-v2") <= 1.75


@pytest.mark.parametrize(("dtype", "least"), [("fp32", 28), ("bf16", 80)])
def test_forward_operations_per_cycle(loops, dtype, least):
    assert operations_per_cycle(loops(FORWARD[dtype]), dtype, "neoverse-v2") >= least


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("dtype", FORWARD)
def test_no_vectors_on_the_stack(loops, compiler, dtype):
    forward, backward = loops(FORWARD[dtype], compiler), loops(BACKWARD[dtype], compiler)
    inner = [softmax(forward), *products(forward, PRODUCT[dtype]), *products(backward, PRODUCT[dtype])]
    for loop in inner:
        assert not [line for line in loop.lines if re.search(r"\b[qv]\d+\b.*\[(sp|x29)\b", line)], loop.function


def test_results_have_the_figures_of_the_model(loops):
    """docs/results/cpu.md."""
    v2, n1 = "neoverse-v2", "neoverse-n1"
    fp32, bf16 = ([loops(FORWARD[dtype]), loops(BACKWARD[dtype])] for dtype in ("fp32", "bf16"))
    softmax_cycles = [cycles_per_score(one, v2) for one in (fp32[0], bf16[0])]
    together = [operations_per_cycle(one, dtype, v2) for one, dtype in ((fp32[0], "fp32"), (bf16[0], "bf16"))]
    figures = [
        f"V2 | {min(worst_rate(one, FMLA, v2) for one in fp32):.2f} |",
        f"N1 | {min(worst_rate(one, FMLA, n1) for one in fp32):.2f} |",
        f"V2 | {worst_rate(scores_of_decode(loops(DECODE['bf16'])), BFDOT, v2):.2f} |",
        f"V2 | {min(worst_rate(one, BFMMLA, v2) for one in bf16):.2f} |",
        "V2 | " + " / ".join(f"{one:.2f}" for one in softmax_cycles) + " |",
        "V2 | " + " / ".join(f"{one:.0f}" for one in together) + " |",
    ]
    section = (ROOT / "docs/results/cpu.md").read_text().partition("## Arm, by a model\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| .*? \| (?=[VN]\d)(.* \|)$", section)
    assert rows == figures
