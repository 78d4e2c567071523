"""What `./dev amd-report` counts in the code of kernels for AMD GPUs. Nothing is timed."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.amd import report, tables  # noqa: E402
from bench.amd.code import Product, Work, blocks_of, listing, tile_work  # noqa: E402

LISTING = Path(os.environ.get("BUILD_DIR", ROOT / "build/release")) / "bench/bench_amd_listing"
CLANG = shutil.which("clang-22")

EXP, MFMA, LOAD, WRITE = "VOP1 32", "matrix 96", "GLOBAL 23", "DS 223"
ADD, SCALAR, END = "VOP2 1", "scalar 0", "SOPP 1"


def code(*instructions):
    """Lines of a listing in which each instruction has a word; "if N" and "go N" are branches to word N."""
    words = {"if": "SOPP 5", "go": "SOPP 2"}
    lines = []
    for at, instruction in enumerate(instructions):
        first, *rest = instruction.split()
        lines.append(f"{at} {words[first]} {rest[0]}" if first in words else f"{at} {instruction}")
    return blocks_of(lines, "gfx942")


def test_a_full_tile_takes_the_way_that_copies_and_does_not_mask():
    loop = code(
        ADD,  # before the loop
        "if 4",  # 1, the loop: whether there is a next tile
        *(LOAD, WRITE),
        "if 7",  # 4: whether it is masked
        *(ADD, ADD),
        *(MFMA, EXP, ADD, SCALAR, "if 1", END),
    )
    work = tile_work(loop, [Product(8192, 8)], copied=16)
    assert work == Work(
        Counter({(32, 32, 8): 1}), valu=5, transcendental=1, lds_written=16, global_read=16, instructions=9
    )
    # Two ways that copy cannot both be taken, as a tile is not so large.
    twice = code("if 2", LOAD, "if 4", LOAD, MFMA, "if 0", END)
    assert tile_work(twice, [Product(8192, 8)], copied=16).global_read == 16


def test_a_rolled_product_goes_around_as_often_as_its_multiply_adds_say():
    """A tile is multiplied again in a loop of its own, which goes around once; its first product is rolled."""
    nested = code(SCALAR, SCALAR, "DS 255", MFMA, ADD, "if 2", EXP, "if 1", MFMA, MFMA, "if 0", END)
    products = [Product(4 * 8192, 32), Product(2 * 8192, 16)]
    work = tile_work(nested, products, copied=0)
    assert (work.matrix, work.lds_read, work.valu) == (Counter({(32, 32, 8): 6}), 4 * 16, 4 + 4)
    with pytest.raises(ValueError, match="a tile takes 57344 multiply-adds of a wave, and the loop has"):
        tile_work(nested, [Product(5 * 8192, 32), products[1]], copied=0)
    with pytest.raises(ValueError, match="no loop"):
        tile_work(code(MFMA, END), products, copied=0)
    with pytest.raises(ValueError, match="matrix operation 0x7f is not in the table"):
        code("matrix 127", END)


MATRIX = {
    "gfx90a": {"v_mfma_f32_32x32x8bf16_1k v[0:15], v[16:17], v[18:19], v[0:15]": (32, 32, 8),
               "v_mfma_f32_16x16x16f16 v[0:3], v[16:17], v[18:19], v[0:3]": (16, 16, 16)},
    "gfx942": {"v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]": (32, 32, 8),
               "v_mfma_f32_16x16x16_bf16 v[0:3], v[16:17], v[18:19], v[0:3]": (16, 16, 16),
               "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]": (32, 32, 8),
               "v_mfma_f32_32x32x2_f32 v[0:15], v16, v17, v[0:15]": (32, 32, 2)},
    "gfx950": {"v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]": (32, 32, 16),
               "v_mfma_f32_16x16x32_bf16 v[0:3], v[16:19], v[20:23], v[0:3]": (16, 16, 32),
               "v_mfma_f32_32x32x16_f16 v[0:15], v[16:19], v[20:23], v[0:15]": (32, 32, 16)},
    "gfx1100": {"v_wmma_f32_16x16x16_bf16 v[0:7], v[8:15], v[16:23], v[0:7]": (16, 16, 16),
                "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]": (16, 16, 16)},
    "gfx1201": {"v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[16:19], v[0:7]": (16, 16, 16),
                "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:19], v[0:7]": (16, 16, 16)},
}  # fmt: skip
TRANSCENDENTAL = ["v_exp_f32 v0, v1", "v_exp_f32_e64 v0, |v1|", "v_log_f32 v0, v1", "v_rcp_f32 v0, v1",
                  "v_sqrt_f32 v0, v1", "v_exp_f16 v0, v1"]  # fmt: skip
PLAIN = {
    "gfx9": ["v_perm_b32 v0, v1, v2, v3", "v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", "v_cvt_f32_i32 v0, v1",
             "v_cmp_lt_f32 vcc, v0, v1", "v_fma_f32 v0, v1, v2, v3", "v_max3_f32 v0, v1, v2, v3"],
    "gfx1": ["v_perm_b32 v0, v1, v2, v3", "v_cvt_f32_i32 v0, v1", "v_cmp_lt_f32 vcc_lo, v0, v1",
             "v_fma_f32 v0, v1, v2, v3", "v_permlanex16_b32 v0, v1, s0, s1",
             "v_dual_mul_f32 v0, v1, v2 :: v_dual_add_f32 v3, v4, v5"],
}  # fmt: skip
READS = {
    "gfx9": {"ds_read_b128 v[0:3], v4": 16, "ds_read_b64 v[0:1], v4": 8, "ds_read2_b32 v[0:1], v4 offset1:1": 8,
             "ds_read2_b64 v[0:3], v4 offset1:1": 16, "ds_read_u16 v0, v1": 2, "ds_read_u8 v0, v1": 1,
             "ds_bpermute_b32 v0, v1, v2": 4},
    "gfx1": {"ds_load_b128 v[0:3], v4": 16, "ds_load_b64 v[0:1], v4": 8, "ds_load_2addr_b64 v[0:3], v4 offset1:1": 16,
             "ds_load_u16_d16 v0, v1": 2, "ds_bpermute_b32 v0, v1, v2": 4},
}  # fmt: skip
READS["gfx950"] = READS["gfx9"] | {"ds_read_b64_tr_b16 v[0:1], v2": 8}
WRITES = {
    "gfx9": {
        "ds_write_b128 v0, v[4:7]": 16,
        "ds_write2_b64 v0, v[4:5], v[6:7] offset1:1": 16,
        "ds_write_b16 v0, v1": 2,
    },
    "gfx1": {"ds_store_b128 v0, v[4:7]": 16, "ds_store_b64 v0, v[4:5]": 8, "ds_store_b16 v0, v1": 2},
}
LOADS = {
    "gfx9": {"global_load_dwordx4 v[0:3], v[4:5], off": 16, "global_load_ushort v0, v[4:5], off": 2},
    "gfx1": {"global_load_b128 v[0:3], v[4:5], off": 16, "global_load_u16 v0, v[4:5], off": 2},
}
TO_LDS = {"gfx942": {"global_load_lds_dword v[4:5], off": 4},
          "gfx950": {"global_load_lds_dwordx4 v[4:5], off": 16, "global_load_lds_dword v[4:5], off": 4}}  # fmt: skip


def of_chip(table, chip):
    return table.get(chip) or table.get(chip[:4], {})


def all_work(instructions, chip, folder):
    source, made = folder / "kernel.hip", folder / "kernel.co"
    text = "".join(f'  asm volatile("{instruction}");\n' for instruction in instructions)
    source.write_text(f'extern "C" __attribute__((global)) void kernel(int* p) {{\n  p[0] = 1;\n{text}}}\n')
    flags = ["--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O1"]
    subprocess.run([CLANG, "-x", "hip", f"--offload-arch={chip}", *flags, "-o", made, source], check=True)
    return sum((block.work for block in blocks_of(listing(LISTING, made), chip).values()), Work())


@pytest.mark.skipif(CLANG is None, reason="there is no clang-22")
@pytest.mark.skipif(not LISTING.exists(), reason="the build has no benchmarks")
@pytest.mark.parametrize("chip", MATRIX)
def test_instructions_count_as_what_they_are(chip, tmp_path):
    reads, writes, loads = (of_chip(table, chip) for table in (READS, WRITES, LOADS))
    to_lds, plain = TO_LDS.get(chip, {}), of_chip(PLAIN, chip)
    asked = [*MATRIX[chip], *TRANSCENDENTAL, *plain, *reads, *writes, *loads, *to_lds]
    empty, full = all_work([], chip, tmp_path), all_work(asked, chip, tmp_path)
    expected = Work(
        matrix=Counter(MATRIX[chip].values()),
        valu=4 * len(TRANSCENDENTAL) + len(plain),
        transcendental=len(TRANSCENDENTAL),
        lds_read=sum(reads.values()),
        lds_written=sum(writes.values()) + sum(to_lds.values()),
        global_read=sum(loads.values()) + sum(to_lds.values()),
        instructions=len(asked),
    )
    assert full == empty + expected


def test_slots_follow_from_the_chips_rates():
    """The clocks of an instruction are those that AMD states."""
    for chip, shape, clocks in [
        ("gfx90a", (32, 32, 8), 64),
        ("gfx942", (32, 32, 8), 32),
        ("gfx950", (32, 32, 16), 32),
        ("gfx1100", (16, 16, 16), 32),
    ]:
        facts = report.Facts(chip)
        assert report.slots_of(Work(Counter([shape])), facts)["matrix"] * facts.clocks == clocks
    read = Work(Counter({(32, 32, 8): 64}), valu=376, lds_read=32 * 16)
    slots = report.slots_of(read, report.Facts("gfx942"))
    assert slots == {"matrix": 512, "valu": 376, "lds": 256}
    assert report.slots_of(read, report.Facts("gfx942"), 1.5)["lds"] == 384
    assert report.bound_of(slots) == 1
    assert report.bound_of(slots | {"valu": 1024}) == 0.5


def test_the_table_marks_what_misses_its_goal():
    def line(cell, bound, waves):
        used = {"registers": 276, "accumulators": 20, "scalar_registers": 98, "shared_bytes": 53472, "stack_bytes": 0}
        return {
            "cell": cell, "kernel": "gfx942 portable_forward block_q=128 block_k=32 warps=4 | fwd bf16", "bound": bound,
            "resources": used | {"waves": waves}, "slots": {"matrix": 256, "valu": 312, "lds": 259.0},
            "conflicts": 1.284, "compiler": "clang version 22", "date": "2026-11-29", "commit": "abc",
        }  # fmt: skip

    met, missed, free = tables.bounds([line("gfx942 fwd d128", 0.976, 2), line("gfx942 fwd d64", 0.714, 1.0),
                                       line("gfx942 bwd d64", 0.5, 1)])[-4:-1]  # fmt: skip
    row = " | 128 × 32 | 256 | 20 | 98 | 52.2 | 0 | {} | 256 | 312 | 259 | 1.28 | valu | {} |"
    assert met == "| gfx942 fwd d128" + row.format("2.0", "0.98")
    assert missed == "| gfx942 fwd d64" + row.format("1.0 ✗", "0.71 ✗")
    assert free == "| gfx942 bwd d64" + row.format("1.0", "0.50")
