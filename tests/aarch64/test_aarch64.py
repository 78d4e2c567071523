"""The build for aarch64 (BUILD_DIR), whose command an emulator runs as several processors."""

import json
import os
import subprocess

import pytest
from places import BUILD, ROOT

EMULATOR = ["qemu-aarch64", "-L", str(ROOT / "build" / "arm64")]
PROBLEM = "fwd fp32 h=1 s=40 d=64 mask=causal"


def regard(*words, cpu="max", **settings):
    done = subprocess.run(
        [*EMULATOR, "-cpu", cpu, str(BUILD / "regard"), *words],
        env={"PATH": os.environ["PATH"], "REGARD_CACHE": "off", "REGARD_JIT": "off"} | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("cpu", "target"), [("max", "cpu-neon-bf16"), ("neoverse-n1", "cpu-neon"), ("a64fx", "cpu-neon")]
)
def test_the_default_target_is_the_best_of_the_processor(cpu, target):
    assert json.loads(regard("run", PROBLEM, "--json", cpu=cpu).stdout)["plan"]["target"] == target


def test_the_bundle_of_another_architecture_is_passed_over(tmp_path):
    """The library of x86-64 makes a bundle of cpu-generic; a kernel of this name is another one here."""
    (tmp_path / "manifest.toml").write_text(
        '[build]\ntargets = ["cpu-generic"]\n[[variants]]\nproblems = ["fwd fp32 h=1 s=40 d=59"]\n'
    )
    x86 = ROOT / "build" / "release" / "regard"
    subprocess.run([x86, "build", tmp_path / "manifest.toml", "--output", tmp_path / "made"], check=True)
    (bundle,) = (tmp_path / "made").glob("*.bundle")
    done = regard(
        "run", "fwd fp32 h=1 s=40 d=59", "--json", REGARD_BUNDLE_PATH=str(bundle), REGARD_CPU_TARGET="cpu-generic"
    )
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert "generic_forward" in stage["kernel"] and done.stderr == ""
