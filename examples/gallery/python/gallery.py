"""What the examples share: the device to run on, random tensors, the verdict of the fp64 oracle, and a clock.

Every example takes --target=cpu (the default), cuda or hip.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import regard

parser = argparse.ArgumentParser()
parser.add_argument("--target", choices=["cpu", "cuda", "hip"], default="cpu")
kind = parser.parse_args().target
target = None if kind == "cpu" else kind  # for regard.plan: None is the best target of this CPU
device = "cpu" if kind == "cpu" else "cuda"  # PyTorch's word for GPUs of either vendor
torch.manual_seed(0)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float32).to(device, dtype)


def integers(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


def judge(problem: str, **tensors: Any) -> None:
    """Fails unless every output among the tensors agrees with the oracle, which computes it again from the inputs."""
    wait()
    report = regard.check(problem, **tensors)
    for name, verdict in report["outputs"].items():
        assert verdict["ok"], f"{problem}: {name} is wrong: {verdict}"
    print(f"{problem}: {', '.join(report['outputs'])} as the oracle says")


def agree(name: str, ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Fails unless two results of the same sums differ by at most `tolerance` of the largest number."""
    error = float((ours.double() - theirs.double()).abs().max())
    assert error <= tolerance * float(theirs.double().abs().max()), f"{name} is off by {error}"
    print(f"{name} as PyTorch computes it")


def wait() -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any], repeat: int = 5, before: Callable[[], Any] = lambda: None) -> float:
    """The median time of a call; its first one, which may compile a kernel, does not count."""
    times = []
    for _ in range(repeat + 1):
        before()
        wait()
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
