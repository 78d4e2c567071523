"""Compiles kernels for AMD GPUs into the cache, and what --strict finds in their code objects."""

import json
import re
import shutil

import pytest
from test_prebuild import spoilt

CLANGS = [name for name in ("clang-22", "clang-19") if shutil.which(name)]
pytestmark = pytest.mark.skipif(CLANGS == [], reason="there is neither clang-22 nor clang-19")
PORTABLE, WAVE, MATRIX = "kernels/portable/forward.cu", "kernels/hip/wave.h", "kernels/hip/matrix.h"


@pytest.fixture
def prebuilt(regard, tmp_path):
    """Compiles the kernel of a problem with changes to the sources: the exit code, and what is said of it."""

    def run(*changes, target="gfx942", clang=CLANGS[0], options="--strict --json", d=64):
        record = tmp_path / "record.txt"
        record.write_text(f"{target} | fwd bf16 b=8 h=16 s=4096 d={d}\n")
        places = {"REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_DATA_DIR": spoilt(tmp_path, *changes)}
        done = regard(f"prebuild --target={target} --record", record, options, **places, REGARD_HIP_CLANG=clang)
        return done.code, json.loads(done.out)[0] if done.out.startswith("[") else done.out + done.err

    return run


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_a_kernel_is_compiled_strictly(prebuilt, clang, target):
    code, row = prebuilt(target=target, clang=clang)
    assert code == 0, row
    used = row["resources"]
    assert row["tier"] == "compile" and used["matrix"] > 0 and used["waves"] > 0 and used["scalar_registers"] > 0
    assert used["spill_bytes"] == used["stack_bytes"] == 0 and used["warnings"] == []


@pytest.mark.parametrize("clang", CLANGS)
def test_forward_on_cdna_has_two_waves_of_a_simd_and_no_moves_of_accumulators(prebuilt, clang):
    code, row = prebuilt(clang=clang)
    used = row["resources"]
    assert code == 0 and used["waves"] >= 2 and used["registers"] <= 256, row
    assert used["accumulators"] == used["accumulator_moves"] == 0, row


def test_a_kernel_that_spills_with_two_waves_gets_all_registers(prebuilt):
    """Each lane keeps 300 numbers while it loads more of them. A block has 4 waves, so one wave of a SIMD is enough."""
    change = in_kernel(
        "float all[300]; auto* at = regard::global(static_cast<volatile float*>(arguments.o.data)) + regard::thread();"
        '_Pragma("unroll") for (int i = 0; i < 300; ++i) all[i] = at[256 * i];'
        '_Pragma("unroll") for (int i = 0; i < 300; ++i) at[256 * i] = all[299 - i];'
    )
    code, row = prebuilt(change, d=256)
    assert code == 0 and 300 < row["resources"]["registers"] <= 512 and row["resources"]["waves"] == 1, row


def in_kernel(statement):
    """A change that adds a statement to the kernel, at its start."""
    name = "REGARD_DYNAMIC_MEMORY(dynamic, regard::tile_alignment);"
    return PORTABLE, name, f"{name}\n  {statement}\n"


FLAWS = {
    "scratch": (in_kernel("volatile int waste[400]; waste[regard::thread()] = 1;"), r"has a stack of \d+ bytes"),
    "flat": (
        in_kernel("*static_cast<int**>(arguments.q.data)[0] = 1;"),
        r"has \d+ flat accesses, which wait for LDS and memory",
    ),
    "spills": (
        (WAVE, "return waves < least ? least : waves > most ? most : waves;", "return 8 + 0 * (waves + least + most);"),
        r"spills \d+ bytes",
    ),
    "no matrix instruction": (
        (MATRIX, "constexpr bool bf16 = operand == DType::bf16;", "if (width > 0) return; constexpr bool bf16 = true;"),
        "has no matrix instruction",
    ),
}


@pytest.mark.parametrize(("change", "words"), FLAWS.values(), ids=FLAWS)
def test_strict_fails_on_a_flaw_and_names_it(prebuilt, change, words):
    code, row = prebuilt(change)
    assert code == 1 and re.search(words, row["flaws"]), row
    code, shown = prebuilt(change, options="")
    assert code == 0 and re.search(words, shown), shown


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_strict_judges_the_code_object_whichever_compiler_made_it(prebuilt, tmp_path):
    lazy = program(tmp_path / "lazy-clang", f'exec {shutil.which(CLANGS[0])} "$@" -Xclang -disable-llvm-passes')
    code, row = prebuilt(clang=lazy)
    assert code == 1 and "has a stack of" in row["flaws"], row


def test_moves_of_registers_are_reported_only(prebuilt):
    """Scalar registers that are spilled into lanes cost instructions, but no memory."""
    code, row = prebuilt(
        in_kernel(
            "float all[150]; const auto* from = static_cast<const float*>(arguments.q.data);"
            '_Pragma("unroll") for (int i = 0; i < 150; ++i) all[i] = from[7 * i];'
            "for (int n = 0; n < arguments.sq; ++n) { float sum = n * regard::thread();"
            '_Pragma("unroll") for (int i = 0; i < 150; ++i) sum = sum * all[i] + sum;'
            "regard::global(static_cast<volatile float*>(arguments.o.data))[regard::thread()] = sum; }"
        )
    )
    assert code == 0, row
    assert row["resources"]["scalar_spills"] > 0 and row["resources"]["scalar_moves"] > 0, row


def test_compilers_that_are_too_old_are_refused(prebuilt, tmp_path):
    old = program(tmp_path / "clang-18", "echo 'clang version 18.1.8'")
    code, row = prebuilt(clang=old)
    assert code == 3 and "is clang 18, which is too old; set it to the path of clang 19 or later" in row["error"], row
    if "clang-19" in CLANGS:
        code, row = prebuilt(target="gfx950", clang="clang-19")
        words = "is clang 19, and kernels for gfx950 need clang 20 or later; install one, or set REGARD_HIP_CLANG to it"
        assert code == 3 and words in row["error"], row
