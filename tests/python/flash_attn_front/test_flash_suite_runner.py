"""tools/flash_attn_suite.py, on a suite of a few cases."""

import argparse
import importlib
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


def write(suite, text):
    suite.write_text(text)
    (suite.parent / "beside.py").write_text(BESIDE)


def run(suite, text, *words, tool="flash_attn_suite.py"):
    write(suite, text)
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


@pytest.fixture
def runner(monkeypatch):
    """The tool as a module: with --jobs, all that takes PyTorch happens in processes of its own."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("flash_attn_suite")


def test_parts_share_the_sample_and_are_told_together(tmp_path, runner, monkeypatch, capfd):
    suite = tmp_path / "test_few.py"
    words = ["--device", "cpu", "--without", "long", "--only", "without_parameters", "shapes[1-2-"]
    write(suite, SUITE)
    monkeypatch.setattr(sys, "argv", [runner.__file__, str(suite), *words, "--jobs", "2"])
    parts, run_part = {}, runner.run_part
    monkeypatch.setattr(runner, "run_part", lambda options, number: parts.setdefault(number, run_part(options, number)))
    assert runner.main() == 1
    jobs = capfd.readouterr().out
    assert "5 cases: 2 passed, 1 failed, 2 skipped" in jobs and jobs.count("\nfailed test_shapes") == 1
    cases = [*parts[1], *parts[2]]
    assert sorted(map(len, parts.values())) == [2, 3] and len({name for _, name, _ in cases}) == 5
    log = "\n".join(runner.case_line(outcome, name, 1.5, why) for outcome, name, why in cases)
    done = run(tmp_path / "parts.log", log, tool="flash_attn_suite_report.py")
    assert "5 cases: 2 passed, 1 failed, 2 skipped" in done.stdout and "  2 skipped: not today\n" in done.stdout


def test_a_part_that_dies_is_a_failure(tmp_path, runner, monkeypatch):
    write(tmp_path / "test_few.py", "import os\nos.abort()")
    monkeypatch.setattr(sys, "argv", [runner.__file__, str(tmp_path / "test_few.py"), "--device", "cpu", "--jobs", "2"])
    (case,) = runner.run_part(argparse.Namespace(jobs=2), 1)
    assert case == ("failed", "part[1/2]", "the process ended with -6")


def test_a_part_that_is_none(tmp_path, runner, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [runner.__file__, str(tmp_path / "test_few.py"), "--part", "3/2"])
    with pytest.raises(SystemExit) as ended:
        runner.main()
    assert ended.value.code == 2 and "3/2 is no part; the second of eight is 2/8" in capsys.readouterr().err


def test_what_is_refused_is_counted(tmp_path):
    done = run(tmp_path / "test_refused.py", REFUSED, "--device", "cpu")
    assert "2 cases: 1 passed, 1 refused" in done.stdout, done.stdout + done.stderr
    assert "\n  1 refused: page_table " in done.stdout
