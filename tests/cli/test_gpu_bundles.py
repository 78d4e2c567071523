"""Kernels for GPUs of both makes in one file, and code objects for AMD's chips that somebody else has made."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from places import ROOT

from conftest import COMMAND, environment

NVRTC = [str(folder) for folder in ROOT.glob(".venv/lib/python*/site-packages/nvidia/cu13/lib") if folder.is_dir()]
CLANG = next(filter(None, map(shutil.which, ("clang-22", "clang-21", "clang-20"))), None)  # 19 knows no families
PARTS = pathlib.Path(COMMAND).with_name("regard_parts.o")
TARGETS = ["sm_80", "gfx942", "gfx11-generic"]
PROBLEM = "fwd bf16 b=1 h=1 s=128 d=64 mask=causal"
NO_COMPILER = {"REGARD_JIT": "off", "REGARD_CACHE": "off", "REGARD_STRICT": "1"}

pytestmark = pytest.mark.skipif(not CLANG, reason="there is no clang from 20 on")


@pytest.fixture(scope="module")
def made(cache, tmp_path_factory):
    """A build for GPUs of both makes: its folder and its report."""
    if not NVRTC:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not in .venv")
    folder = tmp_path_factory.mktemp("gpus")
    output = ["bundle", "shared"] if PARTS.exists() else ["bundle"]  # a build with sanitizers has no parts
    (folder / "te.toml").write_text(
        f'[build]\nnamespace = "te"\ntargets = {json.dumps(TARGETS)}\noutput = {json.dumps(output)}\n'
        f'[[variants]]\nproblems = ["{PROBLEM}"]\n'
    )
    done = subprocess.run(
        [COMMAND, "build", folder / "te.toml", "--json", "--output", folder / "te"],
        env=environment(REGARD_CACHE_DIR=str(cache), REGARD_NVRTC=NVRTC[0], REGARD_HIP_CLANG=CLANG),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder / "te", json.loads(done.stdout)


def test_one_bundle_has_kernels_for_gpus_of_both_makes(made, regard, regard_json):
    folder, report = made
    assert report["failed"] == 0 and {kernel["kernel"].split()[0] for kernel in report["kernels"]} == set(TARGETS)
    assert all(kernel["resources"]["registers"] > 0 for kernel in report["kernels"])
    listed = regard("bundle list", folder / "te.bundle").out
    assert all(kernel["kernel"] in listed for kernel in report["kernels"])
    assert regard("bundle verify", folder / "te.bundle").code == 0
    in_use = NO_COMPILER | {"REGARD_BUNDLE_PATH": str(folder)}
    for target in TARGETS:
        rows = regard_json("list --tier=bundle --target", target, **in_use)
        assert {row["kernel"] for row in rows} == {k["kernel"] for k in report["kernels"] if k["target"] == target}
        (stage,) = regard_json("explain", PROBLEM, "--target", target, **in_use)["plan"]["stages"]
        assert stage["tier"] == "bundle" and stage["kernel"].startswith(target)
    other = regard("explain", PROBLEM, "--target=gfx1100", **in_use)
    assert f"not in the bundle {folder}/te.bundle" in other.out + other.err


@pytest.mark.skipif(not PARTS.exists(), reason="a build with sanitizers has no parts to make libraries of")
def test_a_library_contains_them_too(made):
    folder, report = made
    code = (
        "import ctypes, sys; text = ctypes.c_char_p()\n"
        "assert ctypes.CDLL(sys.argv[1]).te_regard_list(None, None, ctypes.byref(text)) == 0\n"
        "print(text.value.decode())"
    )
    command = [sys.executable, "-c", code, folder / "lib/libte_regard.so"]
    done = subprocess.run(command, env=environment(**NO_COMPILER), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = {row["kernel"] for row in json.loads(done.stdout) if row["tier"] == "built-in"}
    assert found == {kernel["kernel"] for kernel in report["kernels"]}


def code_object(symbol, chip):
    """What somebody else's build makes of a kernel."""
    source = f'extern "C" __attribute__((global)) void {symbol}(int* x) {{ *x = 1; }}'
    command = [CLANG, "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"]
    command += ["-mcode-object-version=6", f"--offload-arch={chip}", "-o", "-", "-"]
    return subprocess.run(command, input=source.encode(), check=True, capture_output=True, timeout=60).stdout


def bundle_of(code):
    """The beginning of clang's bundle; not all installations have the program that makes one."""
    return b"__CLANG_OFFLOAD_BUNDLE__" + (1).to_bytes(8, "little") + code


def test_a_code_object_that_somebody_else_made(regard, regard_json, tmp_path):
    head = '[build]\ntargets = ["gfx942"]\n'
    (tmp_path / "own.toml").write_text(head + f'[[variants]]\nproblems = ["{PROBLEM}"]\n')
    (kernel,) = regard_json("build own.toml --list")["kernels"]
    (tmp_path / "te.toml").write_text(head + f'[[binaries]]\nfile = "vendor.co"\nkey = "{kernel["kernel"]}"\n')
    no_compiler = {"REGARD_HIP_CLANG": "/dev/null/clang"}

    def built_from(data):
        (tmp_path / "vendor.co").write_bytes(data)
        done = regard("build te.toml --output te --json", **no_compiler)
        report = json.loads(done.out)
        assert (done.code == 0) == (report["failed"] == 0), done.err
        return report

    own = code_object(kernel["symbol"], "gfx942")
    for data in (own, code_object(kernel["symbol"], "gfx9-4-generic")):
        report = built_from(data)
        assert report["from_files"] == 1 and report["kernels"][0]["bytes"] == len(data)
        in_use = NO_COMPILER | {"REGARD_BUNDLE_PATH": str(tmp_path / "te")}
        (stage,) = regard_json("explain", PROBLEM, "--target=gfx942", **in_use)["plan"]["stages"]
        assert stage["tier"] == "bundle"
    for data, why in (
        (code_object(kernel["symbol"], "gfx1100"), "it is no binary for gfx942: its code is for gfx1100"),
        (code_object(kernel["symbol"], "gfx90c"), "its code is for a chip without a target (number 0x32)"),
        (code_object("another", "gfx942"), f"it has no function {kernel['symbol']}"),
        (bundle_of(own), "for several chips; compile with --no-gpu-bundle-output"),
        (own[:-1], "it is no binary for gfx942: it is truncated"),
        (own[:64], "it is truncated"),
        (own[:63], "it is too short"),
        (own.replace(b"\x7fELF", b"\x7fELE"), "it is not a 64-bit ELF file"),
        (pathlib.Path(sys.executable).read_bytes(), "it holds no machine code of AMD GPUs"),
    ):
        report = built_from(data)
        failure = report["kernels"][0]["failure"]
        assert failure.startswith("'vendor.co' cannot be used: ") and why in failure, failure
