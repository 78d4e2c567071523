"""A shared prefix on an NVIDIA GPU: cascade_attention next to one call on all pages of each sequence, and a merge next
to a copy.

    python -m bench.gpu.cascade

The calls take turns as CUDA graphs, each with a cold L2 cache; figures are ratios of medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import regard.torch
from bench.gpu.timing import interleaved
from bench.shared.progress import counted

B, HQ, HK, D, PAGE = 64, 32, 8, 128, 64
PREFIX, OWN = 8192, 512
ROWS = 8192  # of the results that are merged
MILLISECONDS = 50


def replayed(call: Callable[[], Any]) -> Callable[[], Any]:
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def main() -> None:
    blocks, own = PREFIX // PAGE, OWN // PAGE
    pages = blocks + B * own
    order = torch.randperm(pages, device="cuda").int()
    prefix, table = order[:blocks].contiguous(), order[blocks:].reshape(B, own).contiguous()
    whole = torch.cat((prefix.expand(B, -1), table), 1).contiguous()
    draw = {"device": "cuda", "dtype": torch.bfloat16}
    q, k, v = (torch.randn(*rows, D, **draw) for rows in ((B, 1, HQ), (pages, PAGE, HK), (pages, PAGE, HK)))
    lengths, length = (torch.full((n,), rows, dtype=torch.int32, device="cuda") for n, rows in ((B, OWN), (1, PREFIX)))
    all_lengths = lengths + PREFIX
    shared = {"prefix_table": prefix, "prefix_length": length, "page_table": table, "lengths_k": lengths}

    part, o = (torch.randn(ROWS, HQ, D, **draw) for _ in range(2))
    part_lse, lse = (torch.randn(HQ, ROWS, device="cuda") for _ in range(2))
    # A merge in place reads two results and writes one: the copy moves as many bytes.
    moved = 3 * (o.nbytes + lse.nbytes) // 2
    source, destination = (torch.empty(moved, dtype=torch.uint8, device="cuda") for _ in range(2))
    calls = {
        "cascade": lambda: regard.torch.cascade_attention(q, k, v, **shared),
        "one call": lambda: regard.torch.attention(q, k, v, page_table=whole, lengths_k=all_lengths),
        "merge": lambda: regard.torch.merge(part[None], part_lse[None], out=o, lse=lse, accumulate=True),
        "copy": lambda: destination.copy_(source),
    }
    times = interleaved({name: replayed(calls[name]) for name in counted(list(calls), str)}, MILLISECONDS)
    ms = {name: statistics.median(rounds) for name, rounds in times.items()}
    print(f"{torch.cuda.get_device_name()}, b={B}, {HQ}/{HK} heads, d={D}, page {PAGE}, prefix {PREFIX}, own {OWN}")
    print(f"cascade {1e3 * ms['cascade']:.1f} us, one call {1e3 * ms['one call']:.1f} us: ", end="")
    print(f"{ms['one call'] / ms['cascade']:.2f} times the tokens per second (at least 3)")
    print(f"merge of {ROWS} rows {1e3 * ms['merge']:.1f} us, copy {1e3 * ms['copy']:.1f} us: ", end="")
    print(f"{ms['copy'] / ms['merge']:.2f} of the copy's rate (at least 0.85)")


if __name__ == "__main__":
    main()
