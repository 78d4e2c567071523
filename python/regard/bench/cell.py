"""A problem ready to be measured: its tensors, and Regard's call on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import regard

Call = Callable[[], dict[str, Any]]  # returns O, or the gradients, by name
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "fp8_fnuz": torch.float8_e4m3fnuz,
    "fp8_e5m2_fnuz": torch.float8_e5m2fnuz,
    "int32": torch.int32,
    "uint8": torch.uint8,
}
_SEQUENCES = ("offsets_q", "offsets_k", "lengths_q", "lengths_k")
_RANDOM = ("q", "k", "v", "grad_o", "bias", "sink")


@dataclass
class Cell:
    asked: dict[str, Any]  # as the command passes it
    problem: regard.Problem
    plan: regard.Plan
    device: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    samples: dict[str, list[float]] = field(default_factory=dict)  # milliseconds of a call, by contestant
    refused: dict[str, str] = field(default_factory=dict)  # by peer, why it does not take part
    differences: dict[str, float] = field(default_factory=dict)  # by peer, relative to the largest value

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.problem.json)
        return fields

    def call(self) -> Call:
        """Regard's call, which writes into existing outputs."""
        workspace = torch.empty(max(self.plan.workspace_bytes, 1), dtype=torch.uint8, device=self.device)
        given = {**self.inputs, **self.outputs, "workspace": workspace}

        def run() -> dict[str, Any]:
            self.plan.run(**given)
            return self.outputs

        return run

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (*self.inputs.values(), *self.outputs.values()))


def make_cell(asked: dict[str, Any], threads: int, seed: int) -> Cell:
    """Raises RefusedError if Regard does not solve it."""
    problem = regard.Problem(asked["problem"])
    plan = regard.plan(problem, asked["target"] or None, asked["family"] or None, threads)
    device = "cpu" if plan.target.startswith("cpu") else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise regard.RefusedError(f"--peers on {plan.target} needs a GPU, and a PyTorch built with CUDA")
    plan.prepare()
    draw = torch.Generator().manual_seed(seed)
    inputs, outputs = {}, {}
    for name, spec in problem.tensors.items():
        if spec.use == "output":
            outputs[name] = torch.zeros(spec.shape, dtype=DTYPES[spec.dtype], device=device)
        elif asked.get(name) or spec.use == "input":
            inputs[name] = _input(name, spec, asked, draw).to(device)
    if asked["forward"]:
        _complete(inputs, asked["forward"], plan.target if device == "cpu" else device, threads)
    return Cell(asked, problem, plan, device, inputs, outputs)


def _input(name: str, spec: Any, asked: dict[str, Any], draw: Any) -> Any:
    if name in _SEQUENCES:
        return torch.tensor(asked[name], dtype=torch.int32)
    if name == "alibi":  # the slopes of the paper
        heads = torch.arange(1, spec.shape[-1] + 1)
        return (2.0 ** (-8 * heads / spec.shape[-1])).expand(spec.shape).contiguous()
    if name in _RANDOM:
        return torch.randn(spec.shape, generator=draw).to(DTYPES[spec.dtype])
    if name.startswith("descale"):
        return torch.ones(spec.shape)
    if name in ("o", "lse"):
        return torch.zeros(spec.shape, dtype=DTYPES[spec.dtype])
    raise regard.RefusedError(f"--peers makes no input for {name}: measure Regard alone, without --peers")


def _complete(inputs: dict[str, Any], forward: str, target: str, threads: int) -> None:
    """Runs forward for the O and LSE that backward reads."""
    plan = regard.plan(forward, target, threads=threads)
    plan.run(**{name: inputs[name] for name in plan.problem.tensors if name in inputs})
