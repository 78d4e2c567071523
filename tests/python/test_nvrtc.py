"""The compiler of CUDA kernels, as a Python process finds it: compiling does not need a GPU."""

import json
import os
import subprocess
import sys

import pytest

KERNEL = "fwd bf16 h=1 s=128 d=64"
CODE = f"import regard; plan = regard.plan({KERNEL!r}, target='sm_90a'); plan.prepare(); print(plan.json)"


def prepare(tmp_path, *options, **settings):
    environment = {**os.environ, "REGARD_CACHE_DIR": str(tmp_path / "cache"), **settings}
    environment.pop("REGARD_NVRTC", None)
    return subprocess.run([sys.executable, *options, "-c", CODE], env=environment, capture_output=True, text=True)


def tier(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["stages"][0]["tier"]


def test_the_wheel_in_the_running_python_is_found(tmp_path):
    pytest.importorskip("nvidia.cu13", reason="the wheel nvidia-cuda-nvrtc")
    assert tier(prepare(tmp_path)) == "compile"
    assert tier(prepare(tmp_path)) == "cache"


def test_without_one_the_sentence_names_places_and_remedies(tmp_path):
    import numpy

    packages = tmp_path / "without-packages"  # Python's packages without the wheel
    packages.mkdir()
    installed = os.path.dirname(os.path.dirname(numpy.__file__))
    for name in ("numpy", "numpy.libs"):
        if os.path.exists(os.path.join(installed, name)):
            (packages / name).symlink_to(os.path.join(installed, name))
    paths = {
        "PYTHONPATH": f"{packages}:{os.environ.get('PYTHONPATH', '')}",
        "CUDA_HOME": str(tmp_path),
        "PATH": str(tmp_path),
    }
    done = prepare(tmp_path, "-S", **paths)
    assert done.returncode != 0
    assert "NoKernelError" in done.stderr
    for words in (
        f"nvidia-cuda-nvrtc '{packages}/nvidia/cu13/lib'",
        f"CUDA_HOME '{tmp_path}/lib64'",
        "the system's loader",
        "pip install nvidia-cuda-nvrtc",
        "no nvcc either",
    ):
        assert words in done.stderr
