#!/usr/bin/env python3
"""What bounds the kernels for AMD GPUs, from their code objects: no GPU is needed, and nothing is measured.

    ./dev amd-report [--targets T,..] [--build FOLDER] [--out FILE]

For each target, pass and d it compiles the plain bf16 kernel (no mask, whole tiles), and counts what a wave executes
for a tile. A slot is the time in which a SIMD issues one instruction of VALU for a wave: 4 clocks on CDNA, 1 on RDNA.
The bound is the matrix unit's share of them if everything else overlaps with it fully. Writes a line of JSON per kernel
to bench/results/amd-<compiler>-<date>.jsonl; ./dev bench tables draws docs/results/amd.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

from bench.amd.code import Product, Work, blocks_of, listing, tile_work
from bench.shared import machine, results
from bench.shared.progress import counted

TARGETS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx9-4-generic", "gfx11-generic", "gfx12-generic"]
PASSES = ["fwd", "bwd"]
HEAD_DIMENSIONS = [64, 128, 256]

# The chip whose bank conflicts are counted for a target.
CHIP_OF_FAMILY = {
    "gfx90a": "gfx942",
    "gfx9-4-generic": "gfx942",
    "gfx11-generic": "gfx1100",
    "gfx12-generic": "gfx1201",
}

SIMDS = 4  # of a unit: a compute unit of CDNA, a work group processor of RDNA
MULTIPLY_ADDS = 32  # fp32 multiply-adds of a SIMD in a clock, from which the `gflops` of a target follow
# Bytes that LDS gives to a SIMD's share of a unit in a clock, when all of them read: a compute unit has 32 banks of 4
# bytes, on CDNA4 64 for reads; a work group processor has those of two compute units.
LDS_BYTES = {"gfx9": 32, "gfx950": 64, "rdna": 64}
LDS_BYTES_WRITTEN = {"gfx9": 32, "gfx950": 32, "rdna": 64}


class Facts:
    """What a target's file says of its chip."""

    def __init__(self, target: str) -> None:
        text = (machine.ROOT / f"targets/{target}.toml").read_text()

        def number(name: str) -> int:
            return int(re.search(rf"\b{name} = (\d+)", text)[1])

        self.wave, self.shared_memory = number("wave"), number("shared_memory")
        self.multiply_adds = round(MULTIPLY_ADDS * number("bf16") / number("fp32"))  # of a matrix unit's clock
        self.clocks = 4 if self.wave == 64 else 1  # of a slot
        self.lds = target if target in LDS_BYTES else "gfx9" if self.wave == 64 else "rdna"


def slots_of(work: Work, facts: Facts, conflicts: float = 1) -> dict[str, float]:
    """Slots of a SIMD for one wave; `conflicts`: clocks of LDS as a multiple of those without conflicts."""
    lds_clocks = facts.wave * (work.lds_read / LDS_BYTES[facts.lds] + work.lds_written / LDS_BYTES_WRITTEN[facts.lds])
    return {
        "matrix": work.multiplies / facts.multiply_adds / facts.clocks,
        "valu": work.valu,
        "lds": round(conflicts * lds_clocks / facts.clocks, 1),
    }


def bound_of(slots: dict[str, float]) -> float:
    return slots["matrix"] / max(slots.values())


def parameters(kernel: str) -> dict[str, int]:
    """ "gfx942 portable_forward block_q=128 ... | fwd bf16 d=128": those before the line."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", kernel.partition("|")[0])}


def work_of_kernel(kernel: str, d: int, lines: list[str]) -> Work:
    """For a full tile of the kernel, whose d and dv are both `d`."""
    tile = parameters(kernel)
    rows, keys, warps = tile["block_q"], tile["block_k"], tile["warps"]
    part, part_v = tile.get("block_d", d), tile.get("block_dv", d)
    target = kernel.split()[0]
    lanes = warps * (64 if target.startswith("gfx9") else 32)

    def vectors(count: int, columns: int) -> int:
        return 16 * math.ceil(count * columns * 2 / 16 / lanes)

    def product(rows: int, columns: int, total: int, length: int) -> Product:
        return Product(rows * columns * total // warps, length)

    if " portable_forward " in kernel:
        products = [product(rows, keys, d, part), product(rows, part_v, keys, keys)]
        copied = vectors(keys, d) + vectors(keys, part_v)
    else:
        # S, dP, dV, dQ, dK
        products = [product(rows, keys, d, part), product(rows, keys, d, part_v), product(keys, part_v, rows, rows)]
        products += [product(rows, part, keys, keys), product(keys, part, rows, rows)]
        copied = vectors(rows, d) * 2 + 16  # Q, dO; LSE and D of a row
        if part < d:
            copied = 2 * copied + 3 * vectors(keys, d)
    return tile_work(blocks_of(lines, target), products, copied, math.ceil(d / part))


def prebuilt(build: Path, target: str, problem: str, folder: Path) -> list[dict[str, Any]]:
    """The cache's entries of the kernels for a problem, with the name of each one's file."""
    record = folder / "record.txt"
    record.write_text(f"{target} | {problem}\n")
    cache = folder / "cache"
    environment = os.environ | {"REGARD_CACHE_DIR": str(cache)}
    for command in (["prebuild", f"--target={target}", f"--record={record}", "--json"], ["cache", "list", "--json"]):
        done = subprocess.run([build / "regard", *command], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{problem} for {target}: {done.stderr.strip()}{done.stdout.strip()}")
    entries = [entry for entry in json.loads(done.stdout) if "kernel" in entry.get("manifest", {})]
    return [{"file": cache / f"{entry['key']}.regard", **entry["manifest"]} for entry in entries]


def explained(build: Path, target: str, problem: str) -> tuple[str, int]:
    """The text of the kernel that does the pass, and the LDS that a block is launched with."""
    command = [build / "regard", "explain", problem, f"--target={target}", "--json"]
    stages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["plan"]["stages"]
    (stage,) = (stage for stage in stages if re.search(r" portable_(forward|backward) ", stage["kernel"]))
    return stage["kernel"], stage["shared_bytes"]


def waves_per_simd(by_registers: int, lds: int, kernel: str, facts: Facts) -> float:
    of_unit = facts.shared_memory * (2 if facts.wave == 32 else 1)
    of_blocks = of_unit // lds * parameters(kernel)["warps"]
    return min(by_registers, of_blocks / SIMDS)


def bank_conflicts(build: Path, folder: Path) -> dict[tuple[str, int], float]:
    """The bank conflicts of each kernel ("gfx942 portable_forward block_q=128 ...") and d in its loop over tiles. The
    emulator counts them, because addresses are not in a code object."""
    out = folder / "conflicts.xml"
    command = [build / "tests/test_emulated_hip", "--gtest_filter=*HipConflicts*", f"--gtest_output=xml:{out}"]
    print("the emulator counts bank conflicts, which takes a minute", file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True)
    found = {}
    for case in xml.etree.ElementTree.parse(out).iter("testcase") if out.exists() else ():
        said = {one.get("name"): one.get("value") for one in case.iter("property")}
        if "conflicts" in said:
            chip, _, d = case.get("name").rpartition("/")[2].split("_")
            found[f"{chip} {said['kernel']}", int(d[1:])] = float(said["conflicts"])
    if not found:
        sys.exit(f"{command[0]} counted no bank conflicts: {(done.stdout + done.stderr).strip()[-500:]}")
    return found


def reported(
    build: Path, target: str, direction: str, d: int, folder: Path, conflicts: dict[tuple[str, int], float]
) -> dict[str, Any]:
    facts = Facts(target)
    # Many blocks, so that the largest tile is taken, and no split of the keys.
    problem = f"{direction} bf16 b=8 h=16 s=4096 d={d}"
    kernel, lds = explained(build, target, problem)
    (entry,) = (entry for entry in prebuilt(build, target, problem, folder) if entry["kernel"] == kernel)
    used = entry["resources"]
    work = work_of_kernel(kernel, d, listing(build / "bench/bench_amd_listing", entry["file"]))
    # The conflicts of a family's kernels are those of one of its chips.
    of_chip = kernel.partition(" |")[0].replace(target, CHIP_OF_FAMILY.get(target, target), 1)
    if (of_chip, d) not in conflicts:
        raise ValueError(f"the emulator counts no bank conflicts of {of_chip}; add it to HipConflicts")
    slots = slots_of(work, facts, conflicts[of_chip, d])
    lds += used["shared_bytes"]
    return {
        "series": "amd",
        "cell": f"{target} {direction} d{d}",
        "kernel": kernel,
        "resources": used | {"shared_bytes": lds, "waves": waves_per_simd(used["waves"], lds, kernel, facts)},
        "work": {"transcendental": work.transcendental, "lds_read": work.lds_read, "lds_written": work.lds_written,
                 "copied": work.global_read, "instructions": work.instructions},
        "slots": slots,
        "conflicts": conflicts[of_chip, d],
        "bound": round(bound_of(slots), 3),
        "compiler": entry["compiler"].partition(";")[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--build", type=Path, default=machine.ROOT / "build/release")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    cells = [(t, p, d) for t in options.targets.split(",") for p in PASSES for d in HEAD_DIMENSIONS]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        conflicts = bank_conflicts(options.build, Path(folder))
        for target, direction, d in counted(cells, lambda cell: " ".join(map(str, cell))):
            try:
                line = reported(options.build, target, direction, d, Path(folder), conflicts)
            except ValueError as wrong:
                sys.exit(f"{target} {direction} d={d}: {wrong}")
            lines.append(line)
            used = line["resources"]
            slots = "  ".join(f"{name} {value:.0f}" for name, value in line["slots"].items())
            kernel = f"{used['registers']} registers, {used['waves']} waves"
            print(f"{line['cell']:24} {kernel}   {slots}   bound {line['bound']:.2f}")
    name = re.search(r"clang version (\d+)", lines[0]["compiler"])
    origin = machine.origin(f"clang {name[1]}" if name else lines[0]["compiler"])
    out = options.out or results.BENCH / f"amd-{machine.slug(origin['machine'])}-{origin['date']}.jsonl"
    out.write_text("".join(json.dumps(line | origin) + "\n" for line in lines))
    print(out)


if __name__ == "__main__":
    main()
