"""The cells of the CPU benchmark, their sizes and their FLOPs."""

from __future__ import annotations

from dataclasses import dataclass

Heads = dict[int, tuple[int, int]]  # (batch, heads) by sequence length
HEADS: Heads = {512: (8, 16), 2048: (2, 8), 8192: (1, 2)}  # a call of a cell takes 0.02 to 2 s on two cores
# PyTorch's fp16 backward is ten times slower than its bf16 one.
HEADS_FP16_BACKWARD = {512: (2, 8), 2048: (1, 2), 8192: (1, 2)}
DTYPES = ("fp32", "bf16", "fp16")
FEW_ROWS = (4, 16, 64)  # per query head, 32 on 8 key/value heads: a few tokens at once, or the rest of a prompt


@dataclass(frozen=True)
class Cell:
    measure: str  # "fwd", "fwd+bwd", "decode", or "few16" for 16 rows against many keys
    dtype: str
    d: int
    sq: int
    sk: int
    b: int
    hq: int
    hk: int
    causal: bool = False

    @property
    def name(self) -> str:
        mask = "causal" if self.causal else "full"
        return f"{self.measure} {self.dtype} d{self.d} s{self.sk} {mask}"

    @property
    def flops(self) -> float:
        """4 b h sq sk d in forward, 2.5 times that in backward, and half of it if causal."""
        forward = 4.0 * self.b * self.hq * self.sq * self.sk * self.d * (0.5 if self.causal else 1)
        return forward * (3.5 if self.measure == "fwd+bwd" else 1)

    def problem(self, pass_: str = "fwd") -> str:
        text = f"{pass_} {self.dtype} b={self.b} hq={self.hq} hk={self.hk} sq={self.sq} sk={self.sk} d={self.d}"
        text += " layout=bhsd" + (" mask=causal" if self.causal else "")
        return text + (" lse" if self.measure == "fwd+bwd" and pass_ == "fwd" else "")


def all_cells(quick: bool = False, heads: Heads = HEADS) -> list[Cell]:
    """The whole table, or with `quick` its smallest row."""
    cells = []
    for dtype in DTYPES:
        for measure in ("fwd", "fwd+bwd"):
            slow = dtype == "fp16" and measure == "fwd+bwd"
            for d in (64, 128):
                for s in (512,) if quick else heads:
                    b, h = (HEADS_FP16_BACKWARD if slow else heads)[s]
                    if quick:
                        b, h = 1, 4
                    cells += [Cell(measure, dtype, d, s, s, b, h, h, causal) for causal in (False, True)]
        cells.append(Cell("decode", dtype, 128, 1, 2048 if quick else 16384, 1, 32, 8))
        for rows in FEW_ROWS[1:2] if quick else FEW_ROWS:
            cells.append(Cell(f"few{rows}", dtype, 128, rows, 512 if quick else 4096, 1, 32, 8))
    return cells
