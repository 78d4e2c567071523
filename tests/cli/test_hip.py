"""The path of a call to AMD GPUs: hiprtc, driver and chips are those that tests/emulator/hip emulates on the host."""

import os
import shutil

import pytest
from places import BUILD

EMULATOR = BUILD / "tests" / "emulator"
pytestmark = pytest.mark.skipif(not (EMULATOR / "libamdhip64.so.6").exists(), reason="tests/emulator is not built here")

FORWARD = "fwd bf16 b=1 hq=2 hk=1 sq=40 sk=70 d=64 mask=causal lse"
BACKWARD = "bwd bf16 b=1 hq=2 hk=1 sq=40 sk=70 d=64 mask=causal"
MANIFEST = """
[build]
namespace = "te"
targets = ["gfx942", "gfx11-generic"]
output = ["bundle"]
[[variants]]
problems = ["{}"]
"""


def gpu(chip="gfx942", **more):
    """Settings for a machine with an emulated GPU of that chip."""
    return {"LD_LIBRARY_PATH": str(EMULATOR), "REGARD_HIPRTC": str(EMULATOR), "EMULATED_CHIP": chip} | more


def tiers(report):
    return {stage["tier"] for stage in report["plan"]["stages"]}


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("problem", [FORWARD, BACKWARD])
def test_a_problem_is_computed(regard_json, problem, chip):
    first, again = (regard_json("run", problem, "--target=hip --repeat=0", **gpu(chip)) for _ in range(2))
    for report in (first, again):
        assert report["plan"]["target"] == chip
        assert report["check"]["ok"] and len(report["check"]["outputs"]) == (2 if problem == FORWARD else 3)
    assert tiers(again) == {"cache"}


def test_info_says_what_runs_here(regard_json):
    about = regard_json("info", **gpu("gfx1100"))
    assert [one["chip"] for one in about["gpus"] if one["kind"] == "hip"] == ["gfx1100", "gfx1100"]
    runs = {target["name"] for target in about["targets"] if target["runs_here"]}
    assert {name for name in runs if name.startswith("gfx")} == {"gfx1100", "gfx11-generic"}


def test_a_bundle_has_kernels_for_a_chip_and_for_a_family(regard, regard_json, tmp_path):
    """A machine with a compiler builds; others only load."""
    (tmp_path / "te.toml").write_text(MANIFEST.format(FORWARD))
    report = regard_json("build te.toml --output out", REGARD_HIPRTC=str(EMULATOR))
    assert report["count"] == 2, report
    alone = {"REGARD_BUNDLE": str(tmp_path / "out/te.bundle"), "REGARD_JIT": "off", "REGARD_CACHE": "off"}
    run = "run " + FORWARD + " --repeat=0 --target="
    for chip, target in (("gfx942", "gfx942"), ("gfx1100", "gfx11-generic")):
        report = regard_json(run + target, **gpu(chip, **alone))
        assert report["check"]["ok"] and tiers(report) == {"bundle"} and report["plan"]["target"] == target
    other = regard(run + "gfx942", **gpu("gfx1100", **alone))
    assert other.code == 3 and "target gfx942 does not run on Fake Instinct, which is gfx1100" in other.err
    # It has no kernel for the chip itself, which is what a plan prefers.
    chips_own = regard(run + "hip", **gpu("gfx1100", **alone))
    assert chips_own.code == 3 and "kernel 'gfx1100 portable_forward" in chips_own.err


def test_kernels_are_compiled_for_chips_that_are_not_here(regard, regard_json, tmp_path):
    seen = tmp_path / "seen.txt"
    seen.write_text("".join(f"{chip} | {FORWARD}\n" for chip in ("gfx942", "gfx1201")))
    kept = {"REGARD_CACHE_DIR": str(tmp_path / "cache")}
    prebuild = f"prebuild --target=gfx942,gfx1201 --record={seen} --strict"
    rows = regard_json(prebuild, REGARD_HIPRTC=str(EMULATOR), **kept)
    assert [row["tier"] for row in rows] == ["compile"] * 2, rows
    assert all(row["resources"]["matrix"] == 1 for row in rows), rows
    for chip in ("gfx942", "gfx1201"):
        report = regard_json("run", FORWARD, "--target=hip --repeat=0", **gpu(chip, REGARD_JIT="off", **kept))
        assert report["check"]["ok"] and tiers(report) == {"cache"}


def compiler(regard, **settings):
    """What prebuild says of a compiler that cannot compile, or nothing."""
    done = regard("prebuild --target=gfx942 --profile=flash --sample=1", **settings)
    assert done.code in (0, 3), done.err
    return done.out if done.code else ""


@pytest.mark.skipif("REGARD_BIN" in os.environ, reason="the libraries of ROCm 5 have faults that sanitizers find")
def test_hiprtc_is_the_last_choice(regard, tmp_path):
    tools, cache = tmp_path / "tools", {"REGARD_CACHE_DIR": str(tmp_path / "cache")}
    tools.mkdir()
    for name in ("as", "ld"):  # of the compiler that the emulated hiprtc calls
        (tools / name).symlink_to(shutil.which(name))
    without_clang = cache | {"PATH": str(tools), "ROCM_PATH": str(tmp_path)}
    emulated = {"LD_LIBRARY_PATH": str(EMULATOR)}
    neither = compiler(regard, **without_clang)
    assert "no clang for AMD GPUs: searched ROCM_PATH" in neither
    assert "; no hiprtc (HIP's run-time compiler)" in neither or "; hiprtc in '" in neither
    # A setting is the only one that is tried, and that of clang comes first.
    assert "no hiprtc" in compiler(regard, REGARD_HIPRTC="/nowhere", **cache)
    assert "REGARD_HIP_CLANG='none' cannot compile" in compiler(
        regard, REGARD_HIP_CLANG="none", REGARD_HIPRTC=str(EMULATOR), **cache
    )
    assert compiler(regard, **without_clang, **emulated) == ""
