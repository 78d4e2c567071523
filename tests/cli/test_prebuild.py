"""Compiles the kernels of profiles into the cache and reports on them; NVRTC is found without Python."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
from places import ROOT

from conftest import COMMAND

WHEELS = [str(folder) for folder in ROOT.glob(".venv/lib/python*/site-packages/nvidia/cu13/lib") if folder.is_dir()]
ONE = "prebuild --target=sm_90a --profile=flash --sample=1 --strict"
pytestmark = pytest.mark.skipif(not WHEELS, reason="the wheel nvidia-cuda-nvrtc is not in .venv")


def test_a_kernel_is_compiled_once_and_its_resources_are_known(regard, tmp_path):
    settings = {"REGARD_NVRTC": WHEELS[0], "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    first, again = (regard(ONE, "--json", **settings) for _ in range(2))
    assert first.code == again.code == 0, first.err + again.err
    (row,), (cached,) = json.loads(first.out), json.loads(again.out)
    assert (row["tier"], cached["tier"]) == ("compile", "cache")
    assert row["resources"] == cached["resources"] and row["resources"]["registers"] > 0
    assert row["resources"]["spill_bytes"] == 0 and row["resources"]["warnings"] == []
    assert "1 of 1 kernels" in first.err
    assert "1 there before" in regard(ONE, **settings).out


def test_a_cache_too_small_for_all_is_said(regard, tmp_path):
    settings = {"REGARD_NVRTC": WHEELS[0], "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_CACHE_BYTES": "1"}
    two = ONE.replace("sample=1", "sample=2") + " --threads=1"
    done = regard(two, **settings)
    assert done.code == 3
    assert "1 not kept: removed again, as the cache holds 1 bytes at most; REGARD_CACHE_BYTES sets how much" in done.out
    rows = json.loads(regard(two, "--json", **settings).out)
    assert ["not_kept" in row for row in rows] == [True, False]


@pytest.mark.scarce
def test_threads_that_cannot_be_had_are_done_without(tmp_path):
    kernels = "prebuild --target=cpu-generic --profile=default --threads=4096"  # built in: nothing is compiled
    command = f"ulimit -v 300000; REGARD_CACHE_DIR='{tmp_path}' exec '{COMMAND}' {kernels}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and " 0 failed" in done.stdout, done.stdout + done.stderr


def spoilt(tmp_path, *changes):
    """A copy of the sources with changes: file, old text, new text."""
    data = tmp_path / "data"
    for name in ("kernels", "targets", "profiles"):
        for source in (ROOT / name).rglob("*"):
            if source.is_file():
                copy = data / source.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
    for file, old, new in changes:
        text = (data / file).read_text()
        assert old in text
        (data / file).write_text(text.replace(old, new, 1))
    return str(data)


def one_problem(words):
    """A change to the sources that reduces the profile `default` to the kernels of one problem."""
    profile = pathlib.Path("profiles/default.toml")
    return profile, (ROOT / profile).read_text(), f'doc = "one"\n[[variants]]\n{words}\n'


def test_list_and_explain_show_what_a_kernel_takes(regard, regard_json, tmp_path):
    data = spoilt(tmp_path, one_problem("d = 256"))
    settings = {"REGARD_NVRTC": WHEELS[0], "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_DATA_DIR": data}
    problem = "fwd bf16 b=1 h=1 s=64 d=256 --target=sm_80"
    (stage,) = regard_json("explain", problem, **settings)["plan"]["stages"]
    assert "resources" not in stage
    regard_json("prebuild --target=sm_80 --profile=default", **settings)
    (stage,) = regard_json("explain", problem, **settings)["plan"]["stages"]
    used = stage["resources"]
    assert used["registers"] > 0
    (stage,) = regard_json("explain", problem, **settings, REGARD_CACHE="off")["plan"]["stages"]
    assert "resources" not in stage
    line = f"{used['registers']} registers, 0 bytes spilled, 0 of stack, {used['shared_bytes']} of static shared memory"
    assert line in regard("explain", problem, **settings).out
    for profile in ("", "--profile=default"):
        rows = {row["kernel"]: row for row in regard_json("list --target=sm_80", profile, **settings)}
        assert rows[stage["kernel"]]["resources"] == used
    table = regard("list --target=sm_80", **settings).out.splitlines()
    assert table[0].split() == ["tier", "registers", "spilled", "stack", "shared", "kernel"]
    assert any(row.split()[:3] == ["cache", str(used["registers"]), "0"] for row in table)


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("volatile int waste[400]; waste[threadIdx.x] = 1;", 1, "has a stack of "),
        ("nonsense;", 3, '"nonsense" is undefined'),
    ],
)
def test_a_flaw_is_named_and_strict_fails(regard, tmp_path, statement, code, words):
    source = pathlib.Path("kernels/portable/forward.cu")
    text = (ROOT / source).read_text()
    entry = text[text.index("REGARD_KERNEL") :]
    opening = entry[: entry.index("{") + 1]  # of the kernel
    data = spoilt(tmp_path, (source, opening, f"{opening}\n  {statement}\n"))
    settings = {"REGARD_NVRTC": WHEELS[0], "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_DATA_DIR": data}
    shown = regard("prebuild --target=sm_80 --profile=flash --sample=2", "--strict", **settings)
    assert (shown.code, words in shown.out) == (code, True), shown.out + shown.err
    assert regard("prebuild --target=sm_80 --profile=flash --sample=2", **settings).code == (0 if code == 1 else 3)


HOPPER, PORTABLE = "kernels/sm90/forward.cu", "kernels/portable/forward.cu"
WGMMA = "kernels/sm90/ptx/wgmma.h"
BY_TENSOR_MEMORY = 'recipes = ["forward"]\ndtype = ["bf16"]\nd = [128]'
MUTANTS = {
    "too much shared memory": (
        "sm_90a",
        [
            (HOPPER, "Sm90ForwardShared shared;", "Sm90ForwardShared shared; __shared__ volatile int waste[9000];"),
            (HOPPER, "sync_block();\n  const", "waste[threadIdx.x] = 1;\n  sync_block();\n  const"),
        ],
        3,
        r"can never run on sm_90a: it declares \d+ bytes of shared memory .* with \d+ more, \d+ in all, of 232448",
    ),
    "too many registers": (
        "sm_90a",
        [(HOPPER, "__launch_bounds__(regard::threads, 1)", "__launch_bounds__(32, 1)")],
        3,
        r"can never run on sm_90a: 384 threads of \d+ registers need \d+, and there are 65536",
    ),
    "no wgmma": (
        "sm_90a",
        [
            (WGMMA, "const A& a_low, const B& b_low) {", "const A& a_low, const B& b_low) { return;"),
            (WGMMA, "(&a)[steps][4], const B& b_low) {", "(&a)[steps][4], const B& b_low) { return;"),
        ],
        1,
        "has no matrix instruction",
    ),
    "spills": (
        "sm_80",
        [(PORTABLE, "regard::config::occupancy > 0 ? regard::config::occupancy : 1", "8")],
        1,
        r"spills \d+ bytes",
    ),
}


@pytest.mark.parametrize(("target", "changes", "code", "words"), MUTANTS.values(), ids=MUTANTS)
def test_a_kernel_that_takes_too_much_is_named(regard, tmp_path, target, changes, code, words):
    data = spoilt(tmp_path, one_problem(BY_TENSOR_MEMORY), *changes)
    settings = {"REGARD_NVRTC": WHEELS[0], "REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_DATA_DIR": data}
    shown = regard("prebuild --profile=default --sample=2 --strict --target", target, **settings)
    assert shown.code == code and re.search(words, shown.out), shown.out + shown.err
    if code == 3:  # a kernel that can never run is not kept
        kept = {entry["manifest"].get("kernel") for entry in json.loads(regard("cache list --json", **settings).out)}
        (refused,) = re.findall(r"kernel '(.*?)' can never run", shown.out)
        assert " sm90_forward " in refused and refused not in kept


def test_nvrtc_comes_from_cuda_home_and_from_the_loader(regard, tmp_path):
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "lib64").symlink_to(WHEELS[0])
    nothing = {"CUDA_HOME": f"{tmp_path}/none", "LD_LIBRARY_PATH": "", "PATH": str(tmp_path)}
    for i, settings in enumerate(({"CUDA_HOME": str(tmp_path / "cuda")}, {"LD_LIBRARY_PATH": WHEELS[0]})):
        shown = regard(ONE, **{**nothing, **settings, "REGARD_CACHE_DIR": str(tmp_path / str(i))})
        assert shown.code == 0 and "1 compiled" in shown.out, shown.out + shown.err
    missing = regard(ONE, **nothing, REGARD_CACHE_DIR=str(tmp_path / "none"))
    assert missing.code == 3
    remedy = "pip install nvidia-cuda-nvrtc"
    for words in (
        f"CUDA_HOME '{tmp_path}/none/lib64'",
        "the system's loader",
        remedy,
        "no nvcc either",
        f"PATH ({tmp_path})",
    ):
        assert words in missing.out


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_compiles_where_there_is_no_nvrtc(regard, tmp_path):
    settings = {"CUDA_HOME": "", "LD_LIBRARY_PATH": "", "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    shown = regard(ONE, **settings)
    assert shown.code == 0 and "1 compiled" in shown.out, shown.out + shown.err
    (entry,) = json.loads(regard("cache list --json", **settings).out)
    assert entry["manifest"]["compiler"].startswith("nvcc release ")
    # If REGARD_NVRTC is set, only that is tried.
    assert (
        regard(ONE, **settings | {"REGARD_NVRTC": str(tmp_path), "REGARD_CACHE_DIR": str(tmp_path / "none")}).code == 3
    )


def test_bad_words_are_refused(refused):
    assert "sm_90a" in refused("prebuild --target=sm_90b --profile=flash")
    assert "flash" in refused("prebuild --target=sm_90a --profile=flsh")
    assert "--profile" in refused("prebuild --target=sm_90a")
