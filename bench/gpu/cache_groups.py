"""What caches.py measures: groups of calls that take turns in one run, and ratios of their times with bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

import regard
import regard.torch
from bench.gpu import cache_calls
from bench.gpu.cache_calls import HK, HQ, PEERS, D, Shape, numbers, page_table, planned, reads, tensors, whole
from bench.gpu.contestants import BACKENDS, TARGET, Call

READ, PEER = "read", "peer"  # the fastest of the reads or of the peers
GRAPH_CALLS = 50


@dataclass(frozen=True)
class Ratio:
    """A row of the table: factor * time of `over` / time of `of`, which must be at least or at most the bound."""

    name: str
    over: str
    of: str
    bound: float
    at_least: bool = True
    factor: float = 1


@dataclass(frozen=True)
class Group:
    name: str
    shapes: dict[str, Shape]
    ratios: tuple[Ratio, ...]
    read: int = 0  # keys whose bytes are read beside them
    peers: tuple[str, ...] = ()  # the shapes that peers compute as well
    steady: bool = False  # bound by arithmetic, so that the clock must settle
    others: Callable[[dict[str, Call]], dict[str, Call]] | None = None  # more calls

    def problems(self) -> list[str]:
        return [shape.problem for shape in self.shapes.values()]


def repeated(b: int, keys: int, queries: int = 1, **options: Any) -> Shape:
    return Shape((keys,) * b, (queries,) * b, **options)


def mixed_lengths() -> tuple[int, ...]:
    """64 lengths from 128 to 16384, evenly spread over their logarithms, long and short ones in turns."""
    rising = [round(128 * 128 ** (i / 63)) for i in range(64)]
    return tuple(rising[i // 2] if i % 2 else rising[63 - i // 2] for i in range(64))


def decoding() -> list[Group]:
    large, small, tiny = repeated(64, 4096), repeated(8, 4096), repeated(1, 4096)
    mixed, long = Shape(mixed_lengths(), (1,) * 64), repeated(1, 32768)
    most = (
        Ratio("dense, of read", READ, "dense", 0.94),
        Ratio("page 16, of read", READ, "page 16", 0.94),
        Ratio("page 1, of read", READ, "page 1", 0.88),
        *(Ratio(f"{n} queries, times one query", f"{n} queries", "page 16", 1.1, False) for n in (2, 4, 8)),
        Ratio("bound 131072 for 4096, times the true bound", "bound 131072", "page 16", 1.05, False),
        Ratio("batch_invariant, times without", "batch_invariant", "page 16", 1.10, False),
        Ratio("int8, times bf16's tokens per second", "page 16", "int8", 1.6),
        Ratio("e4m3, times bf16's tokens per second", "page 16", "fp8", 1.6),
    )
    shapes = {
        "dense": replace(large, page=0),
        "page 16": large,
        "page 1": replace(large, page=1),
        **{f"{n} queries": replace(large, queries=(n,) * 64) for n in (2, 4, 8)},
        "bound 131072": replace(large, bound=131072),
        "batch_invariant": replace(large, words="batch_invariant"),
        "int8": replace(large, kv="int8"),
        "fp8": replace(large, kv="fp8"),
    }
    return [
        Group("1 GiB", shapes, most, read=sum(large.keys), peers=("page 16",)),
        Group("64 lengths", {"page 16": mixed}, (Ratio("page 16, of read", READ, "page 16", 0.88),), sum(mixed.keys)),
        Group(
            "128 MiB",
            {"page 16": small},
            (Ratio("page 16, of read", READ, "page 16", 0.76),),
            sum(small.keys),
            ("page 16",),
        ),
        Group(
            "16 MiB",
            {"page 16": tiny, "dense": replace(tiny, page=0)},
            (
                Ratio("page 16, of the best peer", PEER, "page 16", 1),
                Ratio("dense, of the best peer", PEER, "dense", 1),
            ),
            peers=("page 16",),
            others=lambda calls: of_sdpa(tiny),
        ),
        Group(
            "one sequence of 32768",
            {"page 16": long, "batch_invariant": replace(long, words="batch_invariant")},
            (Ratio("batch_invariant, times without", "batch_invariant", "page 16", 1.5, False),),
        ),
    ]


def of_sdpa(shape: Shape) -> dict[str, Call]:
    """PyTorch's attention on a dense cache."""
    given = tensors(replace(shape, page=0))
    q, k, v = (given[name].transpose(1, 2) for name in "qkv")

    def call(backend: Any) -> Call:
        def run() -> Any:
            with torch.nn.attention.sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        return run

    return {f"peer {name}": call(backend) for name, backend in BACKENDS.items()}


def prefill() -> list[Group]:
    groups = []
    for chunk in (512, 2048):
        dense = repeated(8, 8192 + chunk, chunk, page=0, packed=True)
        shapes = {"dense": dense, "page 16": replace(dense, page=16), "page 128": replace(dense, page=128)}
        ratios = tuple(
            Ratio(f"page {page}, of the dense packed rate", "dense", f"page {page}", bound)
            for page, bound in ((16, 0.90), (128, 0.95))
        )
        groups.append(Group(f"chunks of {chunk} on 8192", shapes, ratios, peers=("page 16",), steady=True))
    chunk, rows = Shape((8192 + 2048,), (2048,), packed=True), repeated(63, 4096)
    both = Shape((*chunk.keys, *rows.keys), (*chunk.queries, *rows.queries), packed=True)
    ratios = (
        Ratio("together, of the best peer", PEER, "together", 1),
        Ratio("together, times one call each", "together", "apart", 1, False),
    )

    def apart(calls: dict[str, Call]) -> dict[str, Call]:
        def run() -> None:
            calls["the chunk"]()
            calls["the rows"]()

        return {"apart": run}

    shapes = {"together": both, "the chunk": chunk, "the rows": rows}
    group = Group("a chunk of 2048 beside 63 rows", shapes, ratios, peers=("together",), steady=True, others=apart)
    return [*groups, group]


APPENDS = {"bf16": "", "RoPE, e4m3": f"rope=half rotary={D} kv=fp8 descale=tensor"}


def append_problem(b: int, new: int, words: str) -> str:
    rows = 2 * max(new, 16)
    return (
        f"append bf16 b={b} h={HK} snew={new} sk={rows} d={D} lengths paged=16 pages={b * rows // 16} {words}".strip()
    )


def appending(b: int, new: int, words: str) -> Call:
    """Writes the second half of each sequence of a cache."""
    kind = "fp8" if words else "bf16"
    cache = Shape((2 * max(new, 16),) * b, (1,) * b, kv=kind)
    given = {
        "k": numbers(cache.pages, 16, HK, D, kind=kind),
        "v": numbers(cache.pages, 16, HK, D, kind=kind),
        "k_new": numbers(b, new, HK, D),
        "v_new": numbers(b, new, HK, D),
        "lengths_k": whole([cache.keys[0] - new] * b),
        "page_table": page_table(cache),
    }
    if words:
        given |= {f"rope_{name}": numbers(cache.keys[0], D // 2) for name in ("cos", "sin")}
        given |= {f"descale_{name}": torch.full((1,), 0.02, device=cache_calls.DEVICE) for name in ("k", "v")}
    return planned(append_problem(b, new, words), given)


def appends() -> list[Group]:
    """Of RoPE and e4m3, three bytes are moved for each number, and four of a copy."""
    ratios = tuple(
        Ratio(f"{name}, of a copy's rate", "copy", name, 0.85, factor=0.75 if words else 1)
        for name, words in APPENDS.items()
    )

    def calls(_: dict[str, Call]) -> dict[str, Call]:
        tokens = numbers(2, 32, 2048, HK, D)
        other = torch.empty_like(tokens)
        found: dict[str, Call] = {name: appending(32, 2048, words) for name, words in APPENDS.items()}
        return {**found, "copy": lambda: other.copy_(tokens)}

    return [Group("append 2048 tokens for 32", {}, ratios, others=calls)]


def graph_times() -> dict[str, float]:
    """Microseconds of each append of one token for 128 sequences, of many in a captured graph."""
    found = {}
    nothing = torch.zeros(1, device=cache_calls.DEVICE)
    calls = {name: (appending, (128, 1, words)) for name, words in APPENDS.items()}
    for name, (make, arguments) in {**calls, "an empty kernel": (lambda: nothing.zero_, ())}.items():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            call = make(*arguments)
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(GRAPH_CALLS):
                call()
        samples = []
        for _ in range(20):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) / GRAPH_CALLS * 1e3)
        found[name] = sorted(samples)[len(samples) // 2]
    return found


def host_times() -> dict[str, float]:
    """Microseconds of the host for a call, enqueued again and again without waiting, in turns."""
    q, k = numbers(1, 1, HQ, D), numbers(1, 64, HK, D)
    pages, table, lengths = k.view(4, 16, HK, D), whole([[2, 0, 3, 1]]), whole([64])
    calls: dict[str, Call] = {
        "plain": lambda: regard.torch.attention(q, k, k),
        "page table": lambda: regard.torch.attention(q, pages, pages, page_table=table, lengths_k=lengths),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(15):
        for name, call in calls.items():
            if cache_calls.DEVICE != "cpu":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()
            samples[name].append((time.perf_counter() - start) / 200 * 1e6)
    return {name: sorted(times)[len(times) // 2] for name, times in samples.items()}


def workspace_mib() -> float:
    """Of a bound of 131072 keys for 256 sequences of 32 heads."""
    plan = regard.plan(repeated(256, 4096, bound=131072).problem, target=TARGET)
    return float(plan.workspace_bytes / 2**20)


def contestants(group: Group, refused: dict[str, str]) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for name, shape in group.shapes.items():
        given = tensors(shape)
        try:
            calls[name] = planned(shape.problem, given)
        except regard.RegardError as error:
            refused[name] = str(error)
            continue
        for peer, make in PEERS.items() if name in group.peers else ():
            call = make(shape, given)
            if call is not None:
                calls[f"peer {peer}"] = call
    return calls | (group.others(calls) if group.others else {}) | (reads(group.read) if group.read else {})
