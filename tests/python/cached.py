"""A KV cache that is written and read one row after the other, and attention on it in fp64, for tests of fronts.

Tensors are of PyTorch, [rows, heads, d] for one sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

import reference


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@dataclass
class Cache:
    """k, v: [sequences, s, hk, d], or pages [pages, page, hk, d] with a table. lengths: before new tokens."""

    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor | None = None
    index: torch.Tensor | None = None
    left_padding: torch.Tensor | None = None
    added: dict[int, int] = field(default_factory=dict)

    def place(self, sequence: int, row: int) -> tuple[int, int]:
        if self.table is not None:
            return int(self.table[sequence, row // self.k.shape[1]]), row % self.k.shape[1]
        return sequence if self.index is None else int(self.index[sequence]), row

    def write(self, sequence: int, k: torch.Tensor, v: torch.Tensor) -> None:
        length = int(self.lengths[sequence])
        self.added[sequence] = 0 if length < 0 else k.shape[0]
        for i in range(self.added[sequence]):
            place = self.place(sequence, length + i)
            self.k[place], self.v[place] = k[i].to(self.k.dtype), v[i].to(self.v.dtype)

    def read(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = 0 if self.left_padding is None else int(self.left_padding[sequence])
        end = int(self.lengths[sequence]) + self.added.get(sequence, 0)
        places = [self.place(sequence, row) for row in range(first, end)]
        rows = ([x[place] for place in places] for x in (self.k, self.v))
        empty = (x.new_empty(0, *x.shape[2:]) for x in (self.k, self.v))
        k, v = (torch.stack(some) if some else none for some, none in zip(rows, empty))
        return k, v

    def with_unused_rows(self, value: float) -> Cache:
        """Sets every row that no sequence has."""
        used = {self.place(b, row) for b in range(len(self.lengths)) for row in range(int(self.lengths[b]))}
        for x in (self.k, self.v):
            for first in range(x.shape[0]):
                for row in range(x.shape[1]):
                    if (first, row) not in used:
                        x[first, row] = value
        return self


def rotated(
    x: torch.Tensor, positions: list[int], cos: torch.Tensor, sin: torch.Tensor, interleaved: bool
) -> torch.Tensor:
    x, n = x.double().clone(), cos.shape[1]
    a, b = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if interleaved else (slice(0, n), slice(n, 2 * n))
    c, s = (table.double()[positions][:, None] for table in (cos, sin))
    x[..., a], x[..., b] = x[..., a] * c - x[..., b] * s, x[..., a] * s + x[..., b] * c
    return x


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: Any = None, **masks: Any) -> Any:
    """o [rows, heads, d] and lse [heads, rows] in fp64 of one sequence."""
    q, k, v = (x.double().numpy().swapaxes(0, 1)[None] for x in (q, k, v))
    softcap = masks.pop("softcap", 0.0)
    scale = masks.pop("scale", None)
    options = reference.Options(
        reference.visible(1, q.shape[1], q.shape[2], k.shape[2], **masks),
        scale=scale,
        softcap=softcap,
        bias=None if slopes is None else reference.alibi(slopes.double().numpy()[None], 1, q.shape[2], k.shape[2]),
    )
    if not k.shape[2]:
        return numpy.zeros((q.shape[2], q.shape[1], v.shape[3])), numpy.full(q.shape[1:3], -numpy.inf)
    o, lse = reference.attention(q, k, v, options)
    return o[0].swapaxes(0, 1), lse[0]
