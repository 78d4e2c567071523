"""Latent caches in pages, as callers of several libraries hold them, and what attention to them is."""

from __future__ import annotations

import math
from typing import Any

import torch

from cached import Cache, attention, ints, numbers


def starts(counts: list[int]) -> torch.Tensor:
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)


class LatentPages:
    """Random pages of sequences with these lengths, in random order. Rows that no sequence has are NaN; V is the first
    dv columns of K."""

    def __init__(
        self, lengths: list[int], page: int, d: int = 24, dv: int = 16, hk: int = 1, beyond: int = -1, seed: int = 4
    ) -> None:
        """beyond: what stands in the table where a sequence has no pages."""
        self.page, self.dv, self.lengths = page, dv, ints(*lengths)
        counts = [-(-length // page) for length in lengths]
        self.indptr, total = starts(counts), sum(counts)
        order = torch.randperm(total + 2, generator=torch.Generator().manual_seed(seed)).to(torch.int32)
        self.indices = order[:total].clone()
        self.last_page_len = torch.where(self.lengths > 0, (self.lengths - 1) % page + 1, 0).to(torch.int32)
        self.table = torch.full((len(lengths), max([1, *counts])), beyond, dtype=torch.int32)
        for i, (begin, n) in enumerate(zip(self.indptr.tolist(), counts)):
            self.table[i, :n] = self.indices[begin : begin + n]
        k = numbers(seed, total + 2, page, hk, d)
        self._cache = Cache(k, k, self.lengths, self.table).with_unused_rows(math.nan)

    @property
    def k(self) -> torch.Tensor:
        return self._cache.k

    @k.setter
    def k(self, rows: torch.Tensor) -> None:
        self._cache.k = self._cache.v = rows

    def place(self, sequence: int, row: int) -> tuple[int, int]:
        return self._cache.place(sequence, row)

    def expected(self, q: torch.Tensor, counts: list[int], **masks: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """o [tokens, hq, dv] and the natural LSE [tokens, hq] in fp64; counts: the queries of each sequence."""
        found = []
        for i, rows in enumerate(q.split(counts)):
            if counts[i]:
                k, _ = self._cache.read(i)
                found.append(attention(rows, k, k[..., : self.dv], **masks))
        o, lse = ([torch.from_numpy(x.copy()) for x in one] for one in zip(*found))
        return torch.cat(o), torch.cat(lse, dim=1).T


def close(found: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found.double(), right.double(), rtol=tolerance, atol=tolerance)
