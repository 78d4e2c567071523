"""Context parallelism over NCCL: the cases of tests/python, one process for each GPU, next to one GPU."""

from __future__ import annotations

import os
import sys

import pytest

torch = pytest.importorskip("torch")
RANKS = min(torch.cuda.device_count(), 4) & ~1  # an even number, as each half is also a group
if RANKS < 2:
    pytest.skip("this PyTorch sees no two GPUs", allow_module_level=True)
from here import ROOT  # noqa: E402

sys.path[:0] = [str(ROOT / "tests/python/torch_front"), str(ROOT / "tests/python")]
import distributed_cases  # noqa: E402


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        return distributed_cases.outcomes(RANKS, "nccl", tmp_path_factory.mktemp("group"))


@pytest.mark.parametrize("name", distributed_cases.CASES)
def test_ranks_agree_with_one_gpu(found, name):
    distributed_cases.check(found, name, RANKS)
