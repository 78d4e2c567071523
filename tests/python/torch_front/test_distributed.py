"""Context parallelism: four processes on the CPU next to one."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)
import distributed_cases  # noqa: E402

import regard.distributed  # noqa: E402

RANKS = 4
# The two kernels that are needed and not built into the library.
MERGES = """
import numpy, regard
o, lse = numpy.zeros((2, 4, 8, 24), numpy.float16), numpy.zeros((2, 8, 4), numpy.float32)
wide = regard.merge(o, lse, out="fp32")
regard.merge(o, lse, out=wide[0], lse=wide[1], accumulate=True)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    subprocess.run([sys.executable, "-c", MERGES], check=True, timeout=120)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("REGARD_JIT", "off")  # the generic kernel, as nothing here depends on the kernel
        return distributed_cases.outcomes(RANKS, "gloo", tmp_path_factory.mktemp("group"))


@pytest.mark.parametrize("name", distributed_cases.CASES)
def test_ranks_agree_with_one_device(found, name):
    distributed_cases.check(found, name, RANKS)


def test_there_is_no_group_here():
    q = torch.zeros(1, 2, 1, 8)
    with pytest.raises(ValueError, match="call torch.distributed.init_process_group first"):
        regard.distributed.ring_attention(q, q, q)
