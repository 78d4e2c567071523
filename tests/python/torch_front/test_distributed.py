"""Context parallelism: four processes on the CPU next to one."""

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)
import torch.multiprocessing as multiprocessing  # noqa: E402
from distributed_cases import CASES, run_cases  # noqa: E402

import regard.distributed  # noqa: E402

RANKS = 4


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What each rank found wrong with each case; all cases run in one group, as processes take long to start."""
    address = f"file://{tmp_path_factory.mktemp('group') / 'address'}"
    monkey = pytest.MonkeyPatch()
    monkey.setenv("REGARD_JIT", "off")  # the generic kernel, as nothing here depends on the kernel
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    processes = multiprocessing.spawn(run_cases, (RANKS, "gloo", address, queue), RANKS, join=False)
    found = {}
    running = True
    while running or not queue.empty():
        try:
            running = running and not processes.join(timeout=0.05)
        except (multiprocessing.ProcessExitedException, multiprocessing.ProcessRaisedException):
            running = False
        while not queue.empty():
            rank, name, wrong = queue.get()
            found.setdefault(name, {})[rank] = wrong
    monkey.undo()
    return found


@pytest.mark.parametrize("name", CASES)
def test_ranks_agree_with_one_device(outcomes, name):
    found = outcomes.get(name, {})
    assert found.keys() == set(range(RANKS)), "not run"
    for rank, wrong in found.items():
        assert wrong is None, f"rank {rank}: {wrong}"


def test_there_is_no_group_here():
    q = torch.zeros(1, 2, 1, 8)
    with pytest.raises(ValueError, match="call torch.distributed.init_process_group first"):
        regard.distributed.ring_attention(q, q, q)
