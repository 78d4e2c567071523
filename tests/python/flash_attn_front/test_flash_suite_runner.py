"""tools/flash_attn_suite.py, by a suite of a few cases."""

import subprocess
import sys

import places
import pytest

pytest.importorskip("torch")

SUITE = """
import pytest, signal, torch
from beside import made
from flash_attn import flash_attn_func

@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seqlen_q,seqlen_k", [(1, 2), (900, 3)])
def test_shapes(seqlen_q, seqlen_k, causal, dtype):
    if causal:
        pytest.skip("not today")
    q = made(seqlen_q, dtype)
    assert dtype == torch.float16, "of another type"
    assert flash_attn_func(q, q, q).shape == q.shape and torch.cuda.get_device_capability("cuda")[0]

@pytest.mark.skipif(True, reason="never")
def test_never():
    raise AssertionError

def test_without_parameters():
    pass

@pytest.mark.parametrize("seconds", [9])
def test_long(seconds):
    signal.raise_signal(signal.SIGALRM)  # what the clock would do
"""


def test_a_sample_is_run_and_told(tmp_path):
    (tmp_path / "test_few.py").write_text(SUITE)
    made = "import torch\ndef made(n, dtype):\n    return torch.zeros(1, n, 1, 8, dtype=dtype, device="
    (tmp_path / "beside.py").write_text(made + '"cuda")\n')
    words = ["--device", "cpu", "--longest", "100", "--seed", "2"]
    tool = places.ROOT / "tools/flash_attn_suite.py"
    done = subprocess.run([sys.executable, tool, tmp_path / "test_few.py", *words], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "test_few.py: 11 cases of 4 test functions"
    assert "2 passed, 1 failed, 3 skipped, 1 stopped" in lines
    assert sum(line.startswith("skipped test_shapes[1-2-True-dtype") for line in lines) == 2
    assert any("AssertionError at test_few.py:" in line and "of another type" in line for line in lines)
    assert any(line.startswith("passed test_without_parameters ") for line in lines)
