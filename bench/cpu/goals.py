"""All goals for CPU speed: the tables print them next to the figures and mark those that miss them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.shared.markdown import MISSED, Line


@dataclass(frozen=True)
class Goal:
    limit: float
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Compares the value as it is printed, to two decimals."""
        value = round(value, 2)
        return value >= self.limit if self.at_least else value <= self.limit

    def worst(self, values: list[float]) -> float:
        return min(values) if self.at_least else max(values)

    def marked(self, value: float) -> str:
        return f"{value:.2f}" + (f" {MISSED}" if not self.met(value) else "")

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


def marked(value: float, goal: Goal | None) -> str:
    if math.isnan(value):  # not measured
        return "–"
    return goal.marked(value) if goal else f"{value:.2f}"


def _most(limit: float) -> Goal:
    return Goal(limit, at_least=False)


# The speedup over PyTorch that every cell is to reach, by dtype and measure.
SPEED = {
    ("fp32", "fwd"): Goal(1.2),
    ("fp32", "fwd+bwd"): Goal(1.2),
    ("bf16", "fwd"): Goal(2.4),
    ("bf16", "fwd+bwd"): Goal(1.9),
    ("fp16", "fwd"): Goal(1.5),
    ("fp16", "fwd+bwd"): Goal(8),
    ("fp32", "decode"): Goal(5),
    ("bf16", "decode"): Goal(5),
    ("fp16", "decode"): Goal(5),
}
# The speedup over PyTorch, geometric mean over the cells.
MEAN_SPEED = {
    ("fp32", "fwd"): Goal(1.5),
    ("fp32", "fwd+bwd"): Goal(1.4),
    ("bf16", "fwd"): Goal(3.0),
    ("bf16", "fwd+bwd"): Goal(2.4),
}
# The allowed cost relative to the base, by the claim of a comparison.
COST = {"feature": _most(1.3), "causal": _most(0.54), "window": _most(1.15), "varlen": _most(1.1), "gqa": _most(1.0)}
NEIGHBOURS = _most(1.35)  # per padded FLOP, between head dimensions that differ by 8
EFFICIENCY = Goal(0.85)
AVX2_SPEED = Goal(1.0)


def words(line: Line) -> tuple[str, int, int, bool]:
    """dtype, d, s and causal, taken from the name of a grid cell."""
    _, dtype, d, s, mask = line["cell"].split()
    return dtype, int(d[1:]), int(s[1:]), mask == "causal"


def is_few(line: Line) -> bool:
    """Whether it has few query rows against many keys, but more than the single row of decode."""
    return bool(line["measure"].startswith("few"))


def _amx_speed(measure: str, s: int, causal: bool) -> Goal:
    if measure == "fwd":
        return Goal(1.6 if causal else 1.1)
    return Goal(4.0 if s == 8192 else 1.5)


def speed_goal(line: Line) -> Goal | None:
    dtype, _, s, causal = words(line)
    if line.get("series") == "avx2":
        return AVX2_SPEED
    if line.get("target") == "cpu-amx" and dtype == "bf16" and line["measure"] in ("fwd", "fwd+bwd"):
        return _amx_speed(line["measure"], s, causal)
    return SPEED.get((dtype, line["measure"]))


def mean_goal(lines: list[Line]) -> Goal | None:
    """The goal for lines of one dtype and measure."""
    if lines[0].get("series") == "avx2" or lines[0].get("target") == "cpu-amx":
        return None
    return MEAN_SPEED.get((words(lines[0])[0], lines[0]["measure"]))


def ceiling_goal(line: Line) -> Goal | None:
    """The share of the matrix product, or of the plain read, that a cell must reach."""
    dtype, _, s, causal = words(line)
    if line.get("series") == "avx2":
        return None
    if line["measure"] == "decode":
        return Goal(0.85)
    if causal or s < 2048 or is_few(line):
        return None
    if dtype == "bf16":
        return None if line.get("target") == "cpu-amx" else Goal(0.95)
    return Goal(1.0) if (dtype, line["measure"]) == ("fp32", "fwd") else None
