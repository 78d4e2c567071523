"""Turns a line of problem text into a call without arguments: tensors are filled and kernels are loaded, so that a call
only runs."""

from __future__ import annotations

import json
from typing import Any

import torch

import regard

_DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int32": torch.int32,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "uint8": torch.uint8,
}


class Prepared:
    """lengths: those of packed sequences. A backward problem reads O and LSE of its forward problem."""

    def __init__(self, text: str, threads: int, lengths: tuple[int, ...] = (), family: str | None = None) -> None:
        problem = regard.Problem(text)
        self.text = text
        self.threads = threads
        self.plan = regard.plan(problem, family=family, threads=threads)
        self.plan.prepare()
        torch.manual_seed(0)
        self.tensors = {name: _filled(spec, lengths) for name, spec in problem.tensors.items()}
        if text.startswith("bwd"):
            inputs = {n: x for n, x in self.tensors.items() if not n.startswith("grad_")}
            forward = "fwd" + text[3:].replace(" dbias", "") + " lse"
            regard.plan(forward, threads=threads).run(**inputs)

    def __call__(self) -> None:
        self.plan.run(**self.tensors)

    @property
    def described(self) -> dict[str, Any]:
        plan = json.loads(self.plan.json)
        return {
            "problem": self.text,
            "threads": self.threads,
            "target": plan["target"],
            "kernel": [stage["kernel"] for stage in plan["stages"]],
            "source": [stage["tier"] for stage in plan["stages"]],
        }


def _filled(spec: regard.TensorSpec, lengths: tuple[int, ...]) -> torch.Tensor:
    shape, dtype = tuple(spec.shape), _DTYPES[spec.dtype]
    if spec.name in ("offsets_q", "offsets_k"):
        return torch.tensor([0, *lengths], dtype=dtype).cumsum(0, dtype=dtype)
    if spec.name == "ranges":  # every key, so that the cost of reading ranges is measured and not what they save
        ranges = torch.zeros(shape, dtype=dtype)
        ranges[..., 1] = 2**31 - 1
        return ranges
    if spec.name == "bits":
        return torch.randint(0, 2**32, shape, dtype=torch.int64).to(dtype)
    if spec.name == "alibi":
        return (2.0 ** -(8.0 * torch.arange(1, shape[-1] + 1) / shape[-1])).expand(shape).contiguous()
    if not dtype.is_floating_point:
        return torch.ones(shape, dtype=torch.int64).to(dtype)
    return torch.randn(shape).to(dtype)
