"""The build for aarch64 (BUILD_DIR), whose programs an emulator runs as several processors."""

import json
import os
import subprocess

import pytest
from places import BUILD, ROOT

PROBLEM = "fwd fp32 h=1 s=40 d=64 mask=causal"
X86 = ROOT / "build" / "release" / "regard"  # of the same sources
NVRTC = next(ROOT.glob(".venv/lib/python*/site-packages/nvidia/cu13/lib"), None)


def emulated(program, *words, cpu="max", **settings):
    command = ["qemu-aarch64", "-L", ROOT / "build" / "arm64", "-cpu", cpu, BUILD / program, *words]
    environment = {"PATH": os.environ["PATH"], "REGARD_CACHE": "off", "REGARD_JIT": "off"} | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def plan(*words, **settings):
    return json.loads(emulated("regard", "run", *words, "--json", **settings).stdout)["plan"]


@pytest.mark.parametrize("cpu", ["max", "neoverse-n1", "a64fx"])
def test_flags_are_those_of_the_processor(cpu):
    assert "[  PASSED  ] 4 tests" in emulated("tests/test_device", "--gtest_filter=Machine.*", cpu=cpu).stdout


@pytest.mark.parametrize(
    ("cpu", "target"), [("max", "cpu-neon-bf16"), ("neoverse-n1", "cpu-neon"), ("a64fx", "cpu-neon")]
)
def test_the_default_target_is_the_best_of_the_processor(cpu, target):
    assert plan(PROBLEM, cpu=cpu)["target"] == target


def test_the_bundle_of_another_architecture_is_passed_over(tmp_path):
    """The library of x86-64 makes a bundle of cpu-generic; a kernel of this name is another one here."""
    problem = "fwd fp32 h=1 s=40 d=59"
    (tmp_path / "manifest.toml").write_text(
        f'[build]\ntargets = ["cpu-generic"]\n[[variants]]\nproblems = ["{problem}"]\n'
    )
    subprocess.run([X86, "build", tmp_path / "manifest.toml", "--output", tmp_path / "made"], check=True)
    (bundle,) = (tmp_path / "made").glob("*.bundle")
    settings = {"REGARD_BUNDLE_PATH": str(bundle), "REGARD_CPU_TARGET": "cpu-generic"}
    done = emulated("regard", "run", problem, "--json", **settings)
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert "generic_forward" in stage["kernel"]
    assert "it was compiled for another machine" in done.stderr


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_keys_of_gpu_kernels_are_those_of_x86(target):
    words = ["list", "--profile=flash", f"--target={target}", "--json"]
    environment = {"REGARD_CACHE": "off"}
    theirs = json.loads(subprocess.run([X86, *words], env=environment, capture_output=True, check=True).stdout)
    assert len(theirs) > 500
    assert json.loads(emulated("regard", *words).stdout) == theirs


@pytest.mark.skipif(not NVRTC, reason="the wheel nvidia-cuda-nvrtc is not in .venv")
def test_a_kernel_that_x86_compiled_for_a_gpu_is_in_the_cache(tmp_path):
    """Its identity is also that of its source and its compiler, of which there is none on this side."""
    problem = "fwd fp16 h=1 s=128 d=64"
    (tmp_path / "manifest.toml").write_text(f'[build]\ntargets = ["sm_80"]\n[[variants]]\nproblems = ["{problem}"]\n')
    cache = {"REGARD_CACHE": "on", "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    environment = os.environ | cache | {"REGARD_NVRTC": str(NVRTC)}
    subprocess.run([X86, "prebuild", "--manifest", tmp_path / "manifest.toml"], env=environment, check=True)
    done = emulated("regard", "explain", problem, "--target=sm_80", "--json", **cache)
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert stage["tier"] == "cache", stage
