#!/usr/bin/env python3
"""Compares the attention of regard.vllm with vLLM's own operator on this CPU: decode and prefill on pages, in bf16.

It needs vLLM 0.32 for CPUs: docs/vllm.md says how to make an environment. Both compute the same batch from caches with
the same contents, each from the cache that its own backend wrote; what either computes once per batch, for all layers,
is left out. As in a model, every layer has a cache of its own: a call is a step of as many layers as have more than the
processor's caches hold. Calls take turns; a ratio is the median over the rounds of vLLM's time over Regard's. Writes a
line of JSON per cell to bench/results/vllm-<machine>-<date>.jsonl.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Callable

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

BYTES_OF_CACHES = 2**29
HEADS, KV_HEADS, HEAD_SIZE, PAGE = 32, 8, 128, 128  # the page is vLLM's default on CPUs
TURN = Turn(pause=0.002, ms=0)  # vLLM's threads spin for a while


@dataclass(frozen=True)
class Cell:
    measure: str
    b: int
    sq: int
    sk: int

    @property
    def name(self) -> str:
        return f"{self.measure} b{self.b} s{self.sk}"

    @property
    def layers(self) -> int:
        of_layer = self.b * self.sk * KV_HEADS * 2 * HEAD_SIZE * 2
        return max(1, BYTES_OF_CACHES // of_layer) if self.measure == "decode" else 1


def cells(quick: bool) -> list[Cell]:
    if quick:
        return [Cell("decode", 1, 1, 256), Cell("prefill", 1, 64, 64)]
    decode = [Cell("decode", b, 1, keys) for b in (1, 8) for keys in (1024, 8192)]
    return decode + [Cell("prefill", 1, tokens, tokens) for tokens in (512, 2048)]


class Batch:
    """The tensors of a batch, as vLLM's builders get them: every request has `sq` new tokens, the last of `sk`."""

    def __init__(self, cell: Cell) -> None:
        import torch

        torch.manual_seed(0)
        pages = -(-cell.sk // PAGE)
        self.block_table = torch.randperm(cell.b * pages, dtype=torch.int32).reshape(cell.b, pages)
        positions = torch.arange(cell.sk)
        self.slots = (self.block_table[:, positions // PAGE].long() * PAGE + positions % PAGE).flatten()
        self.query_start_loc = torch.arange(cell.b + 1, dtype=torch.int32) * cell.sq
        self.seq_lens = torch.full((cell.b,), cell.sk, dtype=torch.int32)
        self.k, self.v = (torch.randn(cell.b * cell.sk, KV_HEADS, HEAD_SIZE).bfloat16() for _ in range(2))
        self.q = torch.randn(cell.b * cell.sq, HEADS, HEAD_SIZE).bfloat16()

    def cache(self) -> Any:
        import torch

        return torch.zeros(self.block_table.numel(), KV_HEADS, PAGE, 2 * HEAD_SIZE, dtype=torch.bfloat16)


def regard_call(cell: Cell, batch: Batch, output: Any) -> Callable[[], Any]:
    from regard.vllm.builder import RegardMetadata
    from regard.vllm.impl import RegardImpl

    impl, layer = RegardImpl(HEADS, HEAD_SIZE, HEAD_SIZE**-0.5, KV_HEADS), SimpleNamespace()
    caches = [batch.cache() for _ in range(cell.layers)]
    for cache in caches:
        impl.do_kv_cache_update(layer, batch.k, batch.v, cache, batch.slots)
    metadata = RegardMetadata(
        len(batch.q), cell.sq, batch.query_start_loc, batch.seq_lens, batch.block_table, causal=True
    )
    return lambda: [impl.forward(layer, batch.q, None, None, cache, metadata, output) for cache in caches]


def vllm_call(cell: Cell, batch: Batch, output: Any) -> Callable[[], Any]:
    import torch
    from vllm import _custom_ops as ops
    from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

    isa = _get_attn_isa(torch.bfloat16, PAGE, HEAD_SIZE)
    caches = [batch.cache().view(-1, KV_HEADS, 2 * PAGE, HEAD_SIZE).chunk(2, dim=2) for _ in range(cell.layers)]
    for k, v in caches:
        ops.cpu_attn_reshape_and_cache(batch.k, batch.v, k, v, batch.slots, isa)
    schedule = ops.cpu_attn_get_scheduler_metadata(
        num_reqs=cell.b,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_SIZE,
        seq_lens=batch.seq_lens,
        dtype=torch.bfloat16,
        query_start_loc=batch.query_start_loc,
        causal=True,
        sliding_window_size=-1,
        isa=isa,
        enable_kv_split=True,
    )
    attention = partial(
        ops.cpu_attention_with_kv_cache,
        query=batch.q,
        output=output,
        query_start_loc=batch.query_start_loc,
        seq_lens=batch.seq_lens,
        scale=HEAD_SIZE**-0.5,
        causal=True,
        alibi_slopes=None,
        sliding_window=-1,
        block_table=batch.block_table,
        softcap=0.0,
        scheduler_metadata=schedule,
        s_aux=None,
    )
    return lambda: [attention(key_cache=k, value_cache=v) for k, v in caches]


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(run.threads)
    batch = Batch(cell)
    outputs = {name: torch.zeros_like(batch.q) for name in ("regard", "vllm")}
    calls = {
        "regard": regard_call(cell, batch, outputs["regard"]),
        "vllm": vllm_call(cell, batch, outputs["vllm"]),
    }
    times = interleaved(calls, run.threads, run.options.seconds, run.rounds, turn=TURN)
    ms = {name: round(times.median(name) / cell.layers, 4) for name in calls}  # of one layer
    ratio = times.ratio("vllm", "regard")
    difference = (outputs["regard"].float() - outputs["vllm"].float()).abs().max().item()
    print(f"    {ms} ms; vLLM over Regard {ratio:.2f}; difference {difference:.4f}", flush=True)
    return [
        {
            "cell": cell.name,
            "threads": run.threads,
            "layers": cell.layers,
            "ms": ms,
            "over_vllm": round(ratio, 3),
            "difference": round(difference, 5),
            "rounds": times.rounds,
            "others": round(times.others, 3),
            "samples_ms": times.rounded("regard"),
        }
    ]


if __name__ == "__main__":
    this = Run("vllm", __doc__, seconds=4)
    sys.exit(this.each(cells(this.quick), lambda cell: measure(cell, this)))
