"""The passes that g++ skips for fast compiles cost no registers: sums of products stay in them as at -O2
(REGARD_OPTIMIZE)."""

import re
import shutil
import subprocess

import pytest
from part import part_of

# Keeps each kernel with its compile options and its assembly.
COMPILER = """#!/bin/sh
case " $* " in *" -v "*) exec g++ "$@" ;; esac
for last; do true; done
cp "$last" "{kept}/$last"
echo "$@" > "{kept}/$last.options"
exec g++ "$@" -save-temps -dumpdir "{kept}/"
"""


def assembly(options, source):
    command = ["g++", *options[: options.index("-shared")], "-S", "-x", "c++", "-o", "-", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def vector_instructions(assembly):
    """The numbers of vector instructions with an operand on the stack, and of multiply-adds and products of pairs."""
    vectors = [line for line in assembly.splitlines() if re.search(r"%[xyz]mm\d", line)]
    assert vectors
    return [sum(bool(re.search(what, line)) for line in vectors) for what in (r"\(%r[sb]p", r"\tvfn?m|\tvdp")]


@pytest.mark.skipif(shutil.which("g++") is None, reason="about g++")
@pytest.mark.parametrize("target", part_of(["cpu-avx2", "cpu-generic", "cpu-avx512", "cpu-avx512bf16", "cpu-amx"]))
def test_sums_stay_in_registers(regard, regard_json, tmp_path, target):
    targets = {known["name"]: known for known in regard_json("info")["targets"]}
    if not targets[target]["runs_here"]:
        pytest.skip(targets[target]["why_not"])  # compiled kernels are also loaded
    kept = tmp_path / "kept"
    kept.mkdir()
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(kept=kept))
    compiler.chmod(0o755)
    settings = {"REGARD_CXX": str(compiler), "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_BUILT_IN": "off"}
    done = regard(f"prebuild --target={target} --profile=all --sample=4", **settings)
    assert done.code == 0, done.err
    kernels = sorted(kept.glob("*.cpp"))
    assert len(kernels) == 4
    for source in kernels:
        quick = source.with_name(source.name + ".options").read_text().split()
        comment, name = source.read_text().splitlines()[:2]  # the command that compiles it by hand
        plain = comment.split()[2:]
        assert "-O1" in quick and "-O1" not in plain and "-O2" in plain
        (spilled, fused), (spilled_plain, fused_plain) = (
            vector_instructions(text) for text in (source.with_suffix(".s").read_text(), assembly(plain, source))
        )
        assert spilled <= spilled_plain + 10, name
        assert fused >= 0.8 * fused_plain, name
