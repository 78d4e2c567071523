"""Calls on KV caches for the GPU benchmark caches.py: a shape, its tensors, and Regard's and others' calls on them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch

import regard
from bench.gpu.contestants import TARGET, Call

HQ, HK, D = 32, 8, 128
DEVICE = "cuda"
KINDS = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn, "int8": torch.int8}


@dataclass(frozen=True)
class Shape:
    """Forward on a cache. keys and queries: how many each sequence has. page: rows of a page, 0 for a dense cache; with
    packed queries and no page the keys are packed as well."""

    keys: tuple[int, ...]
    queries: tuple[int, ...]
    page: int = 16
    packed: bool = False
    bound: int = 0  # of keys, if not the longest
    kv: str = "bf16"
    words: str = ""

    @property
    def blocks(self) -> int:
        """The width of the page table."""
        return -(-(self.bound or max(self.keys)) // self.page)

    @property
    def pages(self) -> int:
        return sum(-(-length // self.page) for length in self.keys)

    @property
    def problem(self) -> str:
        sk = self.blocks * self.page if self.page else max(self.keys)
        words = [f"fwd bf16 b={len(self.keys)} hq={HQ} hk={HK} sq={max(self.queries)} sk={sk} d={D}"]
        if self.packed:
            words.append(f"varlen tq={sum(self.queries)}" + ("" if self.page else f" tk={sum(self.keys)}"))
        if self.page:
            words.append(f"lengths paged={self.page} pages={self.pages}")
        elif not self.packed:
            words.append("lengths")
        if max(self.queries) > 1:
            words.append("mask=causal")
        if self.kv != "bf16":
            words.append(f"kv={self.kv} descale=tensor")
        return " ".join([*words, self.words]).strip()


def numbers(*shape: int, kind: str = "bf16") -> Any:
    if kind == "int8":
        return torch.randint(-127, 128, shape, dtype=torch.int8, device=DEVICE)
    return torch.randn(*shape, dtype=torch.bfloat16, device=DEVICE).to(KINDS[kind])


def whole(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def starts(lengths: tuple[int, ...]) -> Any:
    return whole([0, *itertools.accumulate(lengths)])


def page_table(shape: Shape) -> Any:
    """Pages in an arbitrary order, and -1 after the last one of a sequence."""
    order = torch.randperm(shape.pages, generator=torch.Generator().manual_seed(1))
    table = torch.full((len(shape.keys), shape.blocks), -1)
    for row, pages in zip(table, order.split([-(-length // shape.page) for length in shape.keys])):
        row[: len(pages)] = pages
    return table.to(torch.int32).to(DEVICE)


def tensors(shape: Shape) -> dict[str, Any]:
    """The arguments of a plan's run, with results."""
    torch.manual_seed(0)
    b = len(shape.keys)
    rows: tuple[int, ...] = (b, max(shape.keys))
    if shape.page:
        rows = (shape.pages, shape.page)
    elif shape.packed:
        rows = (sum(shape.keys),)
    found = {
        "q": numbers(*((sum(shape.queries),) if shape.packed else (b, max(shape.queries))), HQ, D),
        "k": numbers(*rows, HK, D, kind=shape.kv),
        "v": numbers(*rows, HK, D, kind=shape.kv),
    }
    if shape.page:
        found["page_table"] = page_table(shape)
    if shape.page or not shape.packed:
        found["lengths_k"] = whole(shape.keys)
    if shape.packed:
        found["offsets_q"] = starts(shape.queries)
        if not shape.page:
            found["offsets_k"] = starts(shape.keys)
    if shape.kv != "bf16":
        found |= {f"descale_{name}": torch.full((1,), 0.02, device=DEVICE) for name in ("k", "v")}
    return found | {"o": torch.empty_like(found["q"])}


def planned(problem: str, given: dict[str, Any], family: str | None = None) -> Call:
    plan = regard.plan(problem, target=TARGET, family=family)
    plan.prepare()
    run = {**given, "workspace": torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device=DEVICE)}
    if DEVICE == "cpu":
        return lambda: plan.run(**run)
    stream = torch.cuda.current_stream().cuda_stream
    return lambda: plan.run(**run, stream=stream)


def of_fa3(shape: Shape, given: dict[str, Any]) -> Call | None:
    """FlashAttention-3's operator of the wheel fa3-fwd, if it is loaded."""
    if not hasattr(torch.ops.fa3_fwd, "fwd") or shape.kv != "bf16" or not (shape.page or shape.packed):
        return None
    inputs: list[Any] = [None] * 20
    if shape.packed:
        inputs[4], inputs[9] = given["offsets_q"], max(shape.queries)
    if shape.page:
        inputs[8], inputs[11] = given["lengths_k"], given["page_table"].clamp(min=0)
    else:
        inputs[5], inputs[10] = given["offsets_k"], max(shape.keys)
    options = (1 / math.sqrt(D), max(shape.queries) > 1, -1, -1, 0, 0.0, True, None, 0, None, 0)
    q, k, v = given["q"], given["k"], given["v"]
    return lambda: torch.ops.fa3_fwd.fwd(q, k, v, *inputs, *options)[0]


def of_flashinfer(shape: Shape, given: dict[str, Any]) -> Call | None:
    """FlashInfer's decoding on pages, if it is installed; its plan is made ahead and not timed."""
    try:
        import flashinfer
    except ImportError:
        return None
    if shape.packed or not shape.page or max(shape.queries) > 1 or shape.kv != "bf16":
        return None
    counts = tuple(-(-length // shape.page) for length in shape.keys)
    table = given["page_table"]
    room = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=True)
    last = whole([length - (count - 1) * shape.page for length, count in zip(shape.keys, counts)])
    wrapper.plan(
        *(starts(counts), table[table >= 0].contiguous(), last, HQ, HK, D, shape.page),
        q_data_type=torch.bfloat16,
        kv_data_type=torch.bfloat16,
    )
    q, cache = given["q"][:, 0], (given["k"], given["v"])
    return lambda: wrapper.run(q, cache)


PEERS = {"fa3": of_fa3, "flashinfer": of_flashinfer}


def reads(count: int) -> dict[str, Call]:
    """Kernels of PyTorch that move as many bytes as K and V of `count` keys have: a sum, and a copy of half of them."""
    words = torch.ones(count * HK * D, dtype=torch.float32, device=DEVICE)  # 4 bytes, as a number of K and one of V
    half, other = words.chunk(2)
    return {"sum": lambda: words.sum(), "copy": lambda: other.copy_(half)}
