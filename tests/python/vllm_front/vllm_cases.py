"""A layer of a model as vLLM calls it, and what attention to everything that was written into its cache is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy
import torch

import reference
from cached import ints, numbers

HQ, HK, D, PAGE, PAGES = 4, 2, 32, 32, 16


def batches(file="batches.json"):
    """Six steps of one vLLM server in order: prompts of 1 to 70 tokens in chunks of 32 tokens, and decoded tokens.

    gpu_batches.json has such steps, each also padded as for a full graph, by the builders of metadata for GPUs: what
    tests/vllm/record.py writes.
    """
    for batch in json.loads(Path(__file__).with_name(file).read_text()):
        batch.setdefault("block_table_tensor", batch.get("block_table"))
        tensors = {name: ints(*batch[name]) for name in ("query_start_loc", "seq_lens", "block_table_tensor")}
        tensors["slot_mapping"] = torch.tensor(batch["slot_mapping"])
        yield SimpleNamespace(**{**batch, **tensors, "mm_req_doc_ranges": None, "rswa_prefix_lens": None})


def gpu_cache(tokens_first, dtype, device):
    """A key beside its value; of a page, heads before tokens, or tokens before heads."""
    shape = (PAGES, PAGE, HK, 2 * D) if tokens_first else (PAGES, HK, PAGE, 2 * D)
    cache = torch.full(shape, math.nan, dtype=dtype, device=device)
    return cache.transpose(1, 2) if tokens_first else cache


def factor(*values):
    return torch.tensor(values if len(values) > 1 else values[0])


class Layer:
    """An attention layer with its cache, all of it NaN, and the keys and values that each slot stands for."""

    def __init__(self, dtype=torch.float32, k_scale=(1.0,), v_scale=(1.0,), **options):
        from regard.vllm.backend import RegardBackend

        self.dtype, self.options = dtype, options
        self.cache_type = options.get("kv_cache_dtype", "auto")
        self._k_scale, self._v_scale = factor(*k_scale), factor(*v_scale)
        self.scale = options.pop("scale", 0.3)
        self.impl = RegardBackend.get_impl_cls()(HQ, D, self.scale, HK, **{**defaults(), **options})
        self.builder = RegardBackend.get_builder_cls()(None, [], None, torch.device("cpu"))
        eight_bits = self.cache_type != "auto"
        self.cache = torch.full((PAGES, HK, PAGE, 2 * D), math.nan, dtype=dtype)
        if eight_bits:
            self.cache = torch.full_like(self.cache, 0x7F, dtype=torch.uint8)  # NaN, in both types
        self.rows = torch.zeros(2, PAGES * PAGE, HK, D)

    def write(self, k, v, slots):
        self.impl.do_kv_cache_update(self, k, v, self.cache, slots)
        self.remember(k, v, slots)

    def remember(self, k, v, slots):
        for slot, *row in zip(slots.tolist(), k.float(), v.float()):
            if slot >= 0:
                self.rows[:, slot] = torch.stack(row)

    def step(self, batch, seed=0):
        """The output of a batch, and what it should be."""
        tokens = batch.num_actual_tokens
        q = numbers(seed, tokens, HQ, D).to(self.dtype)
        k, v = (numbers(seed + i, tokens, HK, D).to(self.dtype) for i in (1, 2))
        self.write(k, v, batch.slot_mapping)
        return self.attend(q, k, v, batch), self.expected(q, batch)

    def attend(self, q, k, v, batch):
        output = torch.full_like(q, math.nan)
        found = self.impl.forward(self, q, k, v, self.cache, self.builder.build(0, batch), output)
        assert found is output
        return output

    def expected(self, q, batch):
        found, starts = [], batch.query_start_loc.tolist()
        for i, length in enumerate(batch.seq_lens.tolist()):
            positions = torch.arange(length)
            slots = batch.block_table_tensor[i, positions // PAGE].long() * PAGE + positions % PAGE
            found.append(self.plain(q[starts[i] : starts[i + 1]], *self.rows[:, slots], batch.causal))
        return torch.cat(found)

    def plain(self, q, k, v, causal):
        """In fp64, of one sequence."""
        q, k, v = (x.double().numpy().swapaxes(0, 1)[None] for x in (q, k, v))
        left, slopes, sinks = (self.options.get(name) for name in ("sliding_window", "alibi_slopes", "sinks"))
        window = (-1, -1) if left is None else (left - 1, -1 if causal else left - 1)
        options = reference.Options(
            reference.visible(1, HQ, q.shape[2], k.shape[2], causal=causal, window=window),
            scale=self.scale,
            softcap=self.options.get("logits_soft_cap", 0.0),
            sink=None if sinks is None else sinks.double().numpy(),
            bias=None if slopes is None else reference.alibi(numpy.array([slopes]), 1, q.shape[2], k.shape[2]),
        )
        return torch.from_numpy(reference.attention(q, k, v, options)[0][0].swapaxes(0, 1).copy())


def defaults():
    return {"alibi_slopes": None, "sliding_window": None, "kv_cache_dtype": "auto"}


def close(found, expected, tolerance=1e-5):
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def steps_in_one_place(layer, captured, device="cpu"):
    """The output of each batch and what it should be. All batches lie in the same memory and have the same bounds, as a
    graph has them; `captured` makes a function that replays its argument."""
    held = SimpleNamespace(
        num_reqs=6,
        num_actual_tokens=32,
        max_query_len=32,
        max_seq_len=4 * PAGE,
        query_start_loc=torch.zeros(7, dtype=torch.int32, device=device),
        seq_lens=torch.zeros(6, dtype=torch.int32, device=device),
        block_table_tensor=torch.zeros(6, 4, dtype=torch.int32, device=device),
        slot_mapping=torch.zeros(32, dtype=torch.int64, device=device),
        causal=True,
        mm_req_doc_ranges=None,
        rswa_prefix_lens=None,
    )
    q, *new = (torch.zeros(32, heads, D, dtype=layer.dtype, device=device) for heads in (HQ, HK, HK))
    output, metadata, replay = torch.empty_like(q), layer.builder.build(0, held), None

    def step():
        layer.impl.do_kv_cache_update(layer, *new, layer.cache, held.slot_mapping)
        layer.impl.forward(layer, q, *new, layer.cache, metadata, output)

    for i, batch in enumerate(batches()):
        tokens, requests = batch.num_actual_tokens, batch.num_reqs
        held.query_start_loc.fill_(tokens)[: requests + 1] = batch.query_start_loc
        held.seq_lens.zero_()[:requests] = batch.seq_lens
        held.block_table_tensor.zero_()[:requests] = batch.block_table_tensor
        held.slot_mapping.fill_(-1)[:tokens] = batch.slot_mapping
        for seed, x in enumerate((q, *new), 10 * i):
            x[:tokens] = numbers(seed, tokens, *x.shape[1:])
        replay = replay or captured(step)
        output.fill_(math.nan)
        replay()
        layer.remember(*(x[:tokens].cpu() for x in new), batch.slot_mapping)
        assert output[tokens:].isnan().all()
        yield output[:tokens].cpu(), layer.expected(q[:tokens].cpu(), batch)
