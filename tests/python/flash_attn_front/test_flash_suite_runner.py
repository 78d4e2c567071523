"""tools/flash_attn_suite.py, on a suite of a few cases."""

import re
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


REFUSED = """
import torch
from flash_attn import flash_attn_func
from flash_attn.cute import flash_attn_varlen_func

def leaves():
    return [torch.randn(1, 8, 2, 8, device="cuda", requires_grad=True) for _ in range(3)]

def test_gradients():
    q, k, v = leaves()
    (2 * flash_attn_func(q, k, v)).sum().backward()
    assert q.grad.any() and k.grad.shape == k.shape and v.grad.any()

def test_refused():
    flash_attn_varlen_func(*leaves(), page_table=torch.zeros(1, 1))
"""

BESIDE = """
import torch

def made(n, dtype):
    return torch.zeros(1, n, 1, 8, dtype=dtype, device="cuda")
"""

TOOLS = places.ROOT / "tools"


def run(suite, text, *words, tool="flash_attn_suite.py"):
    suite.write_text(text)
    (suite.parent / "beside.py").write_text(BESIDE)
    return subprocess.run([sys.executable, TOOLS / tool, suite, *words], capture_output=True, text=True)


def test_a_sample_is_run_and_told(tmp_path):
    words = ["--device", "cpu", "--longest", "100", "--seed", "2"]
    done = run(tmp_path / "test_few.py", SUITE, *words)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "test_few.py: 11 cases of 4 test functions, seed 2"
    assert "7 cases: 2 passed, 1 failed, 3 skipped, 1 stopped" in lines
    assert sum(line.startswith("skipped test_shapes[1-2-True-dtype") for line in lines) == 2
    assert any("AssertionError at test_few.py:" in line and "of another type" in line for line in lines)
    assert any(line.startswith("passed test_without_parameters ") for line in lines)


def test_parts_share_the_sample_and_are_told_together(tmp_path):
    words = ["--device", "cpu", "--without", "long", "--only", "without_parameters", "shapes[1-2-"]
    parts = [run(tmp_path / "test_few.py", SUITE, *words, "--part", part).stdout for part in ("1/2", "2/2")]
    cases = [re.findall(r"(test_\S+) [\d.]+ s", part) for part in parts]
    assert sorted(map(len, cases)) == [2, 3] and len({*cases[0], *cases[1]}) == 5
    done = run(tmp_path / "parts.log", "\n".join(parts), tool="flash_attn_suite_report.py")
    assert "5 cases: 2 passed, 1 failed, 2 skipped" in done.stdout and "  2 skipped: not today\n" in done.stdout
    jobs = run(tmp_path / "test_few.py", SUITE, *words, "--jobs", "2").stdout
    assert "5 cases: 2 passed, 1 failed, 2 skipped" in jobs and jobs.count("\nfailed test_shapes") == 1
    died = run(tmp_path / "test_few.py", "import os\nos.abort()", "--device", "cpu", "--jobs", "2")
    assert died.returncode == 1 and "2 cases: 2 failed" in died.stdout and "the process ended with -6" in died.stdout
    wrong = run(tmp_path / "test_few.py", SUITE, "--part", "3/2")
    assert wrong.returncode == 2 and "3/2 is no part; the second of eight is 2/8" in wrong.stderr


def test_what_is_refused_is_counted(tmp_path):
    done = run(tmp_path / "test_refused.py", REFUSED, "--device", "cpu")
    assert "2 cases: 1 passed, 1 refused" in done.stdout, done.stdout + done.stderr
    assert "\n  1 refused: page_table " in done.stdout
