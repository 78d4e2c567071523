"""Context parallelism on the GPUs of one host: each form of regard.distributed next to one GPU.

python -m bench.gpu.context_parallel            # 32768 tokens, 32/8 heads, causal, bf16; a line for each form
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

import regard.distributed as shared
import regard.torch
from bench.shared.progress import counted

FORMS = (shared.ring_attention, shared.all_gather_attention, shared.all_to_all_attention)
HQ, HK, D = 32, 8, 128
WARMING, TIMED = 10, 20
LOAD_SIZE = 8192  # of the matrix product before each measurement, so that all begin at one clock


def milliseconds(call: Callable[[], Any]) -> float:
    """The median over calls of the slowest rank's time."""
    factor = torch.randn(LOAD_SIZE, LOAD_SIZE, dtype=torch.bfloat16, device="cuda")
    for _ in range(WARMING):
        torch.mm(factor, factor)
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(TIMED)]
    for start, end in events:
        dist.barrier()
        torch.mm(factor, factor)  # the host is ahead when the call begins
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    times = torch.tensor([start.elapsed_time(end) for start, end in events], device="cuda")
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return statistics.median(times.tolist())


def measure(rank: int, ranks: int, address: str, tokens: int, backward: bool) -> None:
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=address, rank=rank, world_size=ranks, device_id=device)
    whole = [torch.randn(1, tokens, heads, D, device=device, dtype=torch.bfloat16) for heads in (HQ, HK, HK)]
    part = [shared.shard(x).contiguous() for x in whole]

    def step(attend: Callable[..., Any], inputs: list[torch.Tensor], **options: Any) -> Callable[[], Any]:
        if not backward:
            return lambda: attend(*inputs, **options)
        leaves = [x.requires_grad_() for x in inputs]
        grad = torch.randn(*leaves[0].shape, device=device, dtype=torch.bfloat16)
        return lambda: torch.autograd.grad(attend(*leaves, **options), leaves, grad)

    one = milliseconds(step(regard.torch.attention, whole, causal=True))
    found = {form.__name__: milliseconds(step(form, part, causal=True)) for form in FORMS}
    if rank == 0:
        what = "forward and backward" if backward else "forward"
        print(f"{torch.cuda.get_device_name()}, {ranks} GPUs, {tokens} tokens, {HQ}/{HK} heads, d={D}, causal, {what}")
        print(f"one GPU: {one:.3f} ms")
        for name, time in found.items():
            print(f"{name}: {time:.3f} ms, {time / one:.3f} of one GPU")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count())
    options = parser.parse_args()
    for backward in counted((False, True), lambda backward: "forward and backward" if backward else "forward"):
        with tempfile.TemporaryDirectory() as folder:
            arguments = options.ranks, f"file://{Path(folder) / 'address'}", options.tokens, backward
            multiprocessing.spawn(measure, arguments, options.ranks)


if __name__ == "__main__":
    main()
