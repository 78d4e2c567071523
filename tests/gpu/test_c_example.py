"""The GPU example in C, built with this machine's CUDA toolkit."""

import os
import subprocess
from pathlib import Path

import pytest

from here import KIND, ROOT

CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


@pytest.mark.skipif(KIND != "cuda", reason="the example is for NVIDIA's GPUs")
@pytest.mark.skipif(not (CUDA / "include/cuda_runtime_api.h").exists(), reason="there is no CUDA toolkit")
def test_attention_from_c(tmp_path):
    library = next(
        Path(folder) for folder in os.environ["LD_LIBRARY_PATH"].split(":") if list(Path(folder).glob("libregard.so.0"))
    )
    program = tmp_path / "attention_cuda"
    command = ["cc", "-std=c11", "-o", program, ROOT / "examples/c/attention_cuda.c", f"-I{ROOT / 'include'}"]
    command += [f"-I{CUDA / 'include'}", f"-L{CUDA / 'lib64'}", library / "libregard.so.0", "-lcudart", "-lm"]
    subprocess.run(command, check=True)
    libraries = {"LD_LIBRARY_PATH": f"{os.environ['LD_LIBRARY_PATH']}:{CUDA / 'lib64'}"}
    shown = subprocess.run([program], env=os.environ | libraries, capture_output=True, text=True)
    assert shown.returncode == 0 and "o = 255.5" in shown.stdout, shown.stdout + shown.stderr
