"""Regard, PyTorch and the ceilings as calls without arguments, on the same tensors.

Tensors are [b, h, s, d] and contiguous, which is PyTorch's layout. Regard runs prepared plans on existing arrays;
PyTorch's functions can only return newly allocated results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import regard
from bench.cpu.ceilings import Ceiling
from bench.cpu.cells import Cell

TORCH_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
sdpa = torch.nn.functional.scaled_dot_product_attention
Call = Callable[[], Any]


@dataclass
class Contest:
    regard: Call
    regard_fresh: Call  # the same, but the call allocates its results, for the memory figure
    peers: dict[str, Call]
    ceilings: dict[str, Ceiling]
    plans: list[regard.Plan]
    difference: float  # largest absolute difference between Regard's and PyTorch's results
    _keep: list[Any] = field(default_factory=list)

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return [stage for plan in self.plans for stage in json.loads(plan.json)["stages"]]

    @property
    def target(self) -> str:
        return json.loads(self.plans[0].json)["target"]


def contest(cell: Cell, threads: int) -> Contest:
    torch.manual_seed(0)
    dtype = TORCH_DTYPES[cell.dtype]
    q, grad_o = (torch.randn(cell.b, cell.hq, cell.sq, cell.d).to(dtype) for _ in range(2))
    k, v = (torch.randn(cell.b, cell.hk, cell.sk, cell.d).to(dtype) for _ in range(2))
    if cell.measure == "fwd+bwd":
        result = _forward_backward(cell, threads, q, k, v, grad_o)
    else:
        result = _forward(cell, threads, q, k, v)
    result.ceilings = _reads(k, v) if cell.measure == "decode" else _products(cell.dtype)
    return result


def _options(cell: Cell, threads: int) -> dict[str, Any]:
    return {"causal": cell.causal, "layout": "bhsd", "threads": threads}


def _prepared(problem: str, threads: int) -> regard.Plan:
    plan = regard.plan(problem, threads=threads)
    plan.prepare()
    return plan


def _forward(cell: Cell, threads: int, q: Any, k: Any, v: Any) -> Contest:
    plan = _prepared(cell.problem(), threads)
    o = torch.empty_like(q)
    peers: dict[str, Call] = {"torch": lambda: sdpa(q, k, v, is_causal=cell.causal)}
    if cell.hq != cell.hk:  # the group of query heads folded into rows, and PyTorch's option for GQA
        folded = q.reshape(cell.b, cell.hk, cell.hq // cell.hk * cell.sq, cell.d)
        peers = {"torch_folded": lambda: sdpa(folded, k, v), "torch_gqa": lambda: sdpa(q, k, v, enable_gqa=True)}

    def run() -> None:
        plan.run(q=q, k=k, v=v, o=o)

    run()
    expected = next(iter(peers.values()))().reshape(o.shape)
    return Contest(
        run,
        lambda: regard.attention(q, k, v, **_options(cell, threads)),
        peers,
        {},
        [plan],
        _difference([o], [expected]),
        [q, k, v, o],
    )


def _forward_backward(cell: Cell, threads: int, q: Any, k: Any, v: Any, grad_o: Any) -> Contest:
    forward, backward = _prepared(cell.problem(), threads), _prepared(cell.problem("bwd"), threads)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3])
    grads = [torch.empty_like(x) for x in (q, k, v)]
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]

    def run() -> None:
        forward.run(q=q, k=k, v=v, o=o, lse=lse)
        backward.run(q=q, k=k, v=v, o=o, lse=lse, grad_o=grad_o, grad_q=grads[0], grad_k=grads[1], grad_v=grads[2])

    def fresh() -> Any:
        options = _options(cell, threads)
        o, lse = regard.attention(q, k, v, lse=True, **options)
        return o, lse, regard.attention_backward(grad_o, q, k, v, o, lse, **options)

    def peer() -> Any:
        result = sdpa(*leaves, is_causal=cell.causal)
        return result, torch.autograd.grad(result, leaves, grad_o)

    run()
    expected, expected_grads = peer()
    difference = _difference([o, *grads], [expected.detach(), *expected_grads])
    return Contest(run, fresh, {"torch": peer}, {}, [forward, backward], difference, [q, k, v, o, lse, grads, leaves])


def _difference(ours: list[Any], theirs: list[Any]) -> float:
    return max((x.float() - y.float()).abs().max().item() for x, y in zip(ours, theirs))


def _product(dtype: str, n: int) -> Call:
    """An n^3 matrix product: OpenBLAS through NumPy, oneDNN through PyTorch."""
    if dtype == "fp32":
        import numpy

        a, b = (torch.randn(n, n).numpy() for _ in range(2))
        c = numpy.empty_like(a)
        return lambda: numpy.matmul(a, b, out=c)
    x, y = (torch.randn(n, n).bfloat16() for _ in range(2))
    z = torch.empty_like(x)
    return lambda: torch.mm(x, y, out=z)


def _products(dtype: str) -> dict[str, Ceiling]:
    """The product to compare with: fp32, or bf16 for both bf16 and fp16."""
    n, small = 2048, 256
    name = "openblas_fp32_gflops" if dtype == "fp32" else "onednn_bf16_gflops"
    return {name: Ceiling(_product(dtype, n), 2.0 * n**3, _product(dtype, small), 2.0 * small**3)}


def _read(parts: list[Any]) -> tuple[Call, float]:
    return lambda: [x.sum() for x in parts], float(sum(x.numel() * 4 for x in parts))


def _reads(k: Any, v: Any) -> dict[str, Ceiling]:
    """Reads K and V once: sums over their memory as fp32."""
    parts = [x.reshape(-1).view(torch.float32) for x in (k, v)]
    return {"read_gigabytes_per_s": Ceiling(*_read(parts), *_read([x[: x.numel() // 8] for x in parts]))}
