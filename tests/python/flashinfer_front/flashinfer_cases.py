"""Pages as FlashInfer's callers hold them, and what attention to them is."""

from __future__ import annotations

import math
from typing import Any

import torch

from cached import Cache, attention, ints, numbers

WORKSPACE = torch.empty(16, dtype=torch.uint8)


class Pages:
    """Random pages of sequences with these lengths, in random order. Rows that no sequence has are NaN."""

    def __init__(self, lengths: list[int], page: int, hk: int, d: int, dv: int | None = None, seed: int = 4) -> None:
        self.page, self.lengths = page, ints(*lengths)
        self.counts = [-(-length // page) for length in lengths]
        total = sum(self.counts)
        order = torch.randperm(total + 2, generator=torch.Generator().manual_seed(seed)).to(torch.int32)
        self.indptr = torch.tensor([0, *self.counts]).cumsum(0).to(torch.int32)
        self.indices = order[:total].clone()
        self.last_page_len = torch.where(self.lengths > 0, (self.lengths - 1) % page + 1, 0).to(torch.int32)
        table = torch.full((len(lengths), max([1, *self.counts])), -1, dtype=torch.int32)
        for i, (begin, n) in enumerate(zip(self.indptr.tolist(), self.counts)):
            table[i, :n] = self.indices[begin : begin + n]
        shape = total + 2, page, hk
        self.rows = Cache(numbers(seed, *shape, d), numbers(seed + 1, *shape, dv or d), self.lengths, table)
        self.rows.with_unused_rows(math.nan)

    @property
    def lists(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.indptr, self.indices, self.last_page_len

    def cache(self, form: str, dtype: torch.dtype = torch.float32) -> Any:
        """form: "tuple" or "one", of "NHD" or "HND", as in "one HND"; "interleaved" has K and V in one row."""
        k, v = self.rows.k.to(dtype), self.rows.v.to(dtype)
        if form.endswith("HND"):
            k, v = k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
        if form.startswith("interleaved"):
            return torch.cat([k, v], dim=-1).split([k.shape[-1], v.shape[-1]], dim=-1)
        if form.startswith("one"):
            return torch.stack([k, v], dim=1)
        return k, v

    def expected(self, q: torch.Tensor, counts: list[int], **masks: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """out and LSE in base 2 in fp64; `mask` [i] is the mask of sequence i, counts the queries of each one."""
        per_sequence = masks.pop("mask", None)
        found = []
        for i, rows in enumerate(q.split(counts)):
            if not counts[i]:
                continue
            of_one = masks if per_sequence is None else {**masks, "mask": per_sequence[i]}
            found.append(_attention(rows, *self.rows.read(i), **of_one))
        return torch.cat([o for o, _ in found]), torch.cat([lse for _, lse in found])


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **masks: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if "mask" in masks or "sink" in masks:
        return plain(q, k, v, **masks)
    o, lse = attention(q, k, v, **masks)
    return torch.from_numpy(o.copy()), torch.from_numpy(lse.copy()).T / math.log(2)


def plain(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same from its formula: a mask [sq, sk], and learned sinks [hq]."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if window is not None:
        behind = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0] - torch.arange(k.shape[0])
        scores = scores.masked_fill(behind > window[0], -math.inf)
    if sink is not None:
        scores = torch.cat([scores, sink.double()[:, None, None].expand(-1, q.shape[0], 1)], dim=-1)
        v = torch.cat([v, torch.zeros_like(v[:1])] if v.shape[0] else [q.new_zeros(1, q.shape[1], v.shape[-1])])
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None]).exp().nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", weights, v), lse.T / math.log(2)


def close(found: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found.double(), right.double(), rtol=tolerance, atol=tolerance)
