"""The cells of backward on a GPU: forward's grid, and cases that are compared with the plain cell of the same size."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from bench.gpu.cells import LENGTHS, SKEWED, TOKENS, WIDTH, Cell

# As forward's goals (cells.py): on the H200, the best of cuDNN, FlashAttention-3 and FlashAttention-4 over cuDNN.
GOALS = {
    (64, False): (1.202, 1.156, 1.175, 1.192, 1.174, 1.176),
    (64, True): (1.293, 1.275, 1.248, 1.258, 1.248, 1.224),
    (128, False): (1.053, 1.130, 1.122, 1.125, 1.135, 1.136),
    (128, True): (1.146, 1.143, 1.176, 1.152, 1.163, 1.130),
    (256, False): (1.239, 1.259, 1.223, 1.180, 1.272, 1.294),
    (256, True): (1.111, 1.197, 1.236, 1.219, 1.171, 1.225),
}

# FlashAttention-4 alone over cuDNN, also on the H200: for machines without FlashAttention-4.
FA4 = {
    (64, False): (1.199, 1.143, 1.176, 1.192, 1.175, 1.158),
    (64, True): (1.293, 1.275, 1.250, 1.259, 1.222, 1.200),
    (128, False): (1.054, 1.054, 1.123, 1.125, 1.134, 1.137),
    (128, True): (1.146, 1.142, 1.176, 1.121, 1.128, 1.131),
    (256, False): (1.063, 1.017, 0.983, 0.971, 1.056, 1.067),
    (256, True): (0.994, 0.976, 0.961, 0.956, 0.927, 0.972),
}


@dataclass(frozen=True)
class Beside:
    """A case, the plain cell of the same size, and the share of that cell's rate that the case is to reach."""

    cell: Cell
    base: Cell
    goal: float


def grid() -> list[Cell]:
    cells = []
    for (d, causal), goals in GOALS.items():
        for s, goal in zip(LENGTHS, goals):
            b, h = TOKENS // s, WIDTH // d
            name = f"grid d={d} {'causal' if causal else 'full'} s={s}"
            cells.append(Cell(name, "grid", b, h, h, s, s, d, d, causal, goal=goal, backward=True))
    return cells


def known_fa4(cell: Cell) -> float:
    """FlashAttention-4 over cuDNN in a grid cell."""
    return FA4[cell.d, cell.causal][LENGTHS.index(cell.sq)]


def plain(b: int, h: int, s: int, d: int, causal: bool) -> Cell:
    return Cell("", "beside", b, h, h, s, s, d, d, causal, backward=True)


def cases() -> list[Beside]:
    found = []

    def add(name: str, base: Cell, goal: float, **changes: Any) -> None:
        found.append(Beside(replace(base, name=f"beside {name}", **changes), base, goal))

    for causal in (False, True):
        word = "causal" if causal else "full"
        for h in (32, 64):
            add(f"gqa {h}/8 {word}", plain(1, h, 8192, 128, causal), 0.95, hk=8)
        longest, varlen = max(SKEWED), {"b": len(SKEWED), "lengths": SKEWED}
        add(f"varlen {word}", plain(TOKENS // longest, 16, longest, 128, causal), 0.92, **varlen)
        add(f"d=192/128 {word}", plain(4, 16, 4096, 128, causal), 0.80, d=192)
        # At most a fifth slower.
        for d, s in ((64, 4096), (128, 1024), (128, 4096), (128, 16384), (256, 4096)):
            base = plain(TOKENS // s, WIDTH // d, s, d, causal)
            add(f"deterministic d={d} {word} s={s}", base, 1 / 1.2, deterministic=True)
    add("window", plain(1, 16, 16384, 128, False), 0.97, causal=True, window=1024)
    return found


def share_of_tiles(cell: Cell, plan: str) -> float:
    """For a causal window: the visible pairs over all pairs of the tiles that have one. `plan`: its JSON."""
    tile = re.search(r"_backward block_q=(\d+) block_k=(\d+)", plan)
    if tile is None:
        return 1
    rows, keys = map(int, tile.groups())
    seen = computed = 0
    for first in range(0, cell.sq, rows):
        last = min(first + rows, cell.sq) - 1
        begin = max(first - cell.window, 0) // keys * keys
        end = min((last // keys + 1) * keys, cell.sk)
        computed += (last + 1 - first) * (end - begin)
        seen += sum(min(row, cell.window) + 1 for row in range(first, last + 1))
    return seen / computed
