"""The examples of examples/gallery on the GPU: each checks its own result."""

import subprocess
import sys
from threading import Semaphore

import pytest

import here

sys.path.insert(0, str(here.ROOT / "tools"))
import gallery  # noqa: E402

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)

AT_ONCE = Semaphore(8)  # each Python example takes GPU memory for PyTorch
PROGRAMS = here.ROOT / "build/gallery/gpu"


def command_of(example):
    """C++ examples are built against the library under test."""
    if not example.cpp:
        return [sys.executable, example.path]
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    program = PROGRAMS / example.path.stem
    words = ["c++", "-std=c++20", "-O1", "-Wall", f"-I{here.ROOT / 'include'}", "-o", program, example.path]
    subprocess.run([*words, here.library(), f"-Wl,-rpath,{here.library().parent}"], check=True)
    return [program]


def run(example):
    with AT_ONCE:
        return here.run(*map(str, command_of(example)), f"--target={here.KIND}")


crowd = here.Crowd(run)


@pytest.mark.parametrize("example", gallery.examples(), ids=lambda example: example.name)
def test_example(example):
    done = crowd.result(example)
    assert done.returncode == 0, done.stdout + done.stderr
