"""The cells measured on a GPU: forward's grid and other cases, each with its goal; backward_cells.py has more."""

from __future__ import annotations

from dataclasses import dataclass

# On the H200, by (head dim, causal): the best of cuDNN, FlashAttention-3 and FlashAttention-4 over cuDNN, for
# sequences of 512, 1024, ..., 16384. Each cell is to reach 0.97 of its goal, and their geometric mean 1.00.
GOALS = {
    (64, False): (1.000, 1.000, 1.085, 1.140, 1.152, 1.203),
    (64, True): (1.000, 1.000, 1.046, 1.092, 1.166, 1.175),
    (128, False): (1.000, 1.019, 1.055, 1.083, 1.100, 1.116),
    (128, True): (1.000, 1.100, 1.176, 1.175, 1.189, 1.188),
    (256, False): (1.014, 1.064, 1.082, 1.096, 1.156, 1.112),
    (256, True): (1.000, 1.057, 1.133, 1.192, 1.226, 1.213),
}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS = 16384  # batch * sequence
WIDTH = 2048  # heads * head dim


@dataclass(frozen=True)
class Cell:
    name: str  # words, for --cells
    series: str  # "grid", "cases" or, for backward, "beside"
    b: int
    hq: int
    hk: int
    sq: int
    sk: int
    d: int
    dv: int
    causal: bool = False
    window: int = -1  # keys visible left of the diagonal
    softcap: float = 0
    dtype: str = "bf16"
    lengths: tuple[int, ...] = ()  # of packed sequences; sq and sk are then the longest
    goal: float = 0  # relative to `peer`; 0: none known
    backward: bool = False
    deterministic: bool = False

    @property
    def peer(self) -> str:
        """What the goal is relative to: in the cases FlashAttention-3, the best or second only to FlashAttention-4."""
        return "cudnn" if self.series == "grid" else "fa3"

    @property
    def problem(self) -> str:
        words = [
            "bwd" if self.backward else "fwd",
            self.dtype,
            f"b={self.b} hq={self.hq} hk={self.hk} sq={self.sq} sk={self.sk}",
        ]
        words.append(f"d={self.d} dv={self.dv}")
        if self.dtype == "fp8":
            words.append("out=bf16")
        if self.lengths:
            words.append(f"varlen tq={sum(self.lengths)} tk={sum(self.lengths)}")
        if self.softcap:
            words.append(f"softcap={self.softcap:g}")
        if self.window >= 0:
            words.append(f"mask=window:{self.window},0")
        elif self.causal:
            words.append("mask=causal")
        if self.deterministic:
            words.append("deterministic")
        return " ".join(words)

    @property
    def flops(self) -> float:
        """FLOPs of all products. A causal square counts as half of the full one, as is customary in the field."""
        scores = self.b * float(self.sq) * self.sk
        if self.lengths:
            scores = float(sum(length**2 for length in self.lengths))
        if self.window >= 0:
            reach = min(self.window + 1, self.sk)
            scores = self.b * (float(self.sq) * reach - reach * (reach - 1) / 2)
        elif self.causal:
            scores /= 2
        width = 3 * self.d + 2 * self.dv if self.backward else self.d + self.dv
        return 2.0 * scores * self.hq * width


def grid() -> list[Cell]:
    cells = []
    for (d, causal), goals in GOALS.items():
        for s, goal in zip(LENGTHS, goals):
            b, h = TOKENS // s, WIDTH // d
            name = f"grid d={d} {'causal' if causal else 'full'} s={s}"
            cells.append(Cell(name, "grid", b, h, h, s, s, d, d, causal, goal=goal))
    return cells


# Few long sequences and many short ones.
SKEWED = (8192, 4096, 2048, 1024, 512, 256, 128, 64, *8 * (8,))


def beside_fa3(causal: bool) -> list[Cell]:
    """Cases that cuDNN does not support here."""
    word, b, longest = "causal" if causal else "full", len(SKEWED), max(SKEWED)
    # FlashAttention-4 over FlashAttention-3: 657 over 654 TFLOP/s without a mask, 586 over 607 with one.
    options = {"lengths": SKEWED, "goal": 1.0 if causal else 1.005}
    cells = [Cell(f"cases varlen {word}", "cases", b, 16, 16, longest, longest, 128, 128, causal, **options)]
    for s in LENGTHS[1:]:
        b, h = TOKENS // s, WIDTH // 128
        name = f"cases fp8 {word} s={s}"
        cells.append(Cell(name, "cases", b, h, h, s, s, 128, 128, causal, dtype="fp8", goal=1))
    for d in (64, 128, 256):
        s, h = 4096, WIDTH // d
        b = TOKENS // s
        cells.append(Cell(f"cases softcap d={d} {word}", "cases", b, h, h, s, s, d, d, causal, softcap=30))
    return cells


def cases() -> list[Cell]:
    cells = []
    # d = 192/128: FlashAttention-4 over FlashAttention-3 had 669 over 685 TFLOP/s, with a mask 676 over 638.
    for causal, wide in ((False, 1.0), (True, 1.06)):
        word = "causal" if causal else "full"
        cells += [
            Cell(f"cases gqa 32/8 {word}", "cases", 1, 32, 8, 8192, 8192, 128, 128, causal, goal=1),
            Cell(f"cases gqa 64/8 {word}", "cases", 1, 64, 8, 8192, 8192, 128, 128, causal, goal=1),
            Cell(f"cases d=192/128 {word}", "cases", 4, 16, 16, 4096, 4096, 192, 128, causal, goal=wide),
        ]
    cells.append(Cell("cases window", "cases", 1, 16, 16, 16384, 16384, 128, 128, True, window=1024))
    cells += [
        Cell(f"cases sq={sq} sk={sk}", "cases", b, 32, 8, sq, sk, 128, 128, goal=1)
        for sq, sk, b in ((128, 8192, 8), (16, 8192, 8), (16, 4096, 32), (1, 4096, 32))
    ]
    return cells + beside_fa3(causal=False) + beside_fa3(causal=True)
