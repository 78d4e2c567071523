#!/usr/bin/env python3
"""Latent attention (MLA) on an NVIDIA GPU: decoding beside the rate of a matrix product and a plain read of the same
bytes, and FlashMLA if it can be imported.

The calls of a group take turns in one process with a cold L2 cache; figures are ratios of medians. Prints a table with
the bound of each figure, and writes a line of JSON per group to bench/results/mla-<GPU>-<date>.jsonl. Takes about
two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from bench.gpu import cache_tables
from bench.gpu.cache_calls import numbers, planned, whole
from bench.gpu.contestants import TARGET, Call
from bench.gpu.lines import write_lines
from bench.gpu.timing import LOAD_MILLISECONDS, SETTLING_MILLISECONDS, interleaved

D, DV = 576, 512
SCALE = 192**-0.5  # of the head dim before absorption
MILLISECONDS = 50  # of each call that are measured, in each of three rounds
PRODUCT_SIZE = 8192
PRODUCT, READ, PORTABLE, PEER = "product", "read", "portable", "FlashMLA"


@dataclass(frozen=True)
class Shape:
    """One step of decoding: every sequence has the same length, with pages in any order."""

    b: int
    keys: int
    heads: int = 128
    queries: int = 1
    page: int = 64

    @property
    def problem(self) -> str:
        mask = " mask=causal" if self.queries > 1 else ""
        return (
            f"fwd bf16 lse b={self.b} hq={self.heads} hk=1 sq={self.queries} sk={self.keys} d={D} dv={DV} latent "
            f"lengths paged={self.page} pages={self.pages} scale={SCALE}{mask}"
        )

    @property
    def pages(self) -> int:
        return self.b * -(-self.keys // self.page)

    @property
    def flops(self) -> float:
        return 2.0 * self.b * self.queries * self.heads * self.keys * (D + DV)

    @property
    def read_bytes(self) -> int:
        return self.b * self.keys * D * 2


@dataclass(frozen=True)
class Group:
    name: str
    shapes: dict[str, Shape]
    of_product: float | None = None  # bounds of the first shape: its share of the product's rate, of a read's
    of_read: float | None = None
    of_first: float | None = None  # bound of the others' rates as shares of the first one's


def groups() -> list[Group]:
    large = Shape(64, 16384)
    pages = {f"page {page}": Shape(64, 16384, page=page) for page in (64, 16, 32, 128)}
    few = {f"page {page}": Shape(64, 8192, heads=16, page=page) for page in (64, 16, 32, 128)}
    return [
        Group("128 heads, 64 x 16384", pages, of_product=0.78, of_first=0.95),
        Group("128 heads, 32 x 4096", {"page 64": Shape(32, 4096)}, of_product=0.7),
        Group("128 heads, 1 x 8192", {"page 64": Shape(1, 8192)}),
        Group("128 heads, 2 queries", {"page 64": Shape(large.b, 8192, queries=2)}, of_product=0.78),
        Group("16 heads, 576 MiB", few, of_read=0.8, of_first=0.95),
        Group("16 heads, 4 queries", {"page 64": Shape(64, 8192, heads=16, queries=4)}, of_read=0.6),
        Group("16 heads, 1 x 8192", {"page 64": Shape(1, 8192, heads=16)}),
    ]


def tensors(shape: Shape) -> dict[str, Any]:
    """The arguments of a plan's run, with results."""
    torch.manual_seed(0)
    order = torch.randperm(shape.pages, generator=torch.Generator().manual_seed(1))
    q = numbers(shape.b, shape.queries, shape.heads, D)
    return {
        "q": q,
        "k": numbers(shape.pages, shape.page, 1, D),
        "page_table": whole(order.view(shape.b, -1).tolist()),
        "lengths_k": whole([shape.keys] * shape.b),
        "o": torch.empty_like(q[..., :DV]),
        "lse": torch.empty(shape.b, shape.heads, shape.queries, device=q.device),
    }


def of_flashmla(shape: Shape, given: dict[str, Any]) -> Call | None:
    """Its pages have 64 rows; its schedule is made ahead and not timed."""
    try:
        import flash_mla
    except ImportError:
        return None
    if shape.page != 64:
        return None
    rows = shape.queries * shape.heads
    made = flash_mla.get_mla_metadata(given["lengths_k"], rows, 1)
    inputs = (given["q"], given["k"], given["page_table"], given["lengths_k"], DV, *made)
    return lambda: flash_mla.flash_mla_with_kvcache(*inputs, softmax_scale=SCALE, causal=shape.queries > 1)


def contestants(group: Group, refused: dict[str, str]) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for name, shape in group.shapes.items():
        given = tensors(shape)
        first = not calls
        families = {name: None, **({PORTABLE: "portable_forward"} if first else {})}
        for contestant, family in families.items():
            try:
                calls[contestant] = planned(shape.problem, given, family)
            except regard.RegardError as error:
                refused[contestant] = str(error)
        if first and (call := of_flashmla(shape, given)) is not None:
            calls[PEER] = call
    shape = next(iter(group.shapes.values()))
    words = torch.ones(shape.read_bytes // 4, dtype=torch.float32, device="cuda")
    square = numbers(PRODUCT_SIZE, PRODUCT_SIZE)
    return {**calls, READ: words.sum, PRODUCT: lambda: torch.mm(square, square)}


def figures(group: Group, ms: dict[str, float]) -> list[dict[str, Any]]:
    """A figure has no value if one of its calls was refused or no peer is there, and no bound if none is set."""
    first, shape = next(iter(group.shapes.items()))
    product = 2.0 * PRODUCT_SIZE**3 / ms[PRODUCT]

    def row(name: str, bound: float | None, value: Callable[[], float]) -> dict[str, Any]:
        line: dict[str, Any] = {"name": name, "at_least": True, "bound": bound}
        with contextlib.suppress(KeyError):
            line["value"] = round(value(), 4)
        return line

    return [
        row(f"{first}, of the product's rate", group.of_product, lambda: shape.flops / ms[first] / product),
        row(f"{first}, of a read", group.of_read, lambda: ms[READ] / ms[first]),
        row(f"{first}, of the portable kernel's rate", 1.0, lambda: ms[PORTABLE] / ms[first]),
        row(f"{first}, of FlashMLA's rate", 1.0, lambda: ms[PEER] / ms[first]),
        *(
            row(f"{name}, of the rate of {first}", group.of_first, functools.partial(lambda n: ms[first] / ms[n], name))
            for name in group.shapes
            if name != first
        ),
    ]


def measure(group: Group) -> dict[str, Any]:
    refused: dict[str, str] = {}
    calls = contestants(group, refused)
    times = interleaved(calls, MILLISECONDS, settling=(LOAD_MILLISECONDS, SETTLING_MILLISECONDS))
    ms = {name: statistics.median(samples) for name, samples in times.items()}
    shape = next(iter(group.shapes.values()))
    return {
        "cell": group.name,
        "ms": {name: round(value, 5) for name, value in ms.items()},
        "samples_ms": {name: [round(value, 5) for value in samples] for name, samples in times.items()},
        "tflops": {name: round(shape.flops / ms[name] / 1e9, 1) for name in group.shapes if name in ms},
        "rows": figures(group, ms),
        "refused": refused,
    }


def prepare(problem: str) -> None:
    with contextlib.suppress(regard.RegardError):  # its measurement says why
        regard.plan(problem, target=TARGET).prepare()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="", metavar="TEXT", help="only groups whose name has this text")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    chosen = [group for group in groups() if options.cells in group.name]
    if not chosen:
        print(f"no group's name has '{options.cells}'", file=sys.stderr)
        return 2
    with ThreadPoolExecutor() as pool:  # compiles the kernels, many at once
        list(pool.map(prepare, [shape.problem for group in chosen for shape in group.shapes.values()]))
    lines = write_lines("mla", [(group.name, functools.partial(measure, group)) for group in chosen], options.out)
    print("\n".join(cache_tables.latent(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
