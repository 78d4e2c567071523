"""What is counted in the inner loops of the NEON kernels, with its goals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.arm import loops as model
from bench.arm.loops import BACKWARD, BFDOT, BFMMLA, DECODE, FMLA, FORWARD, Loops
from bench.cpu.goals import Goal

DTYPES = ("fp32", "bf16")


@dataclass(frozen=True)
class Figure:
    text: str
    core: str
    goals: tuple[Goal, ...]  # one, or those of fp32 and bf16
    count: Callable[[Loops, str, str], tuple[float, ...]]  # for the kernels of a compiler, on a core

    def of(self, loops: Loops, compiler: str) -> tuple[float, ...]:
        return self.count(loops, compiler, self.core)


def _multiply_adds(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    return (min(model.worst_rate(loops(kernel["fp32"], compiler), FMLA, core) for kernel in (FORWARD, BACKWARD)),)


def _pairs(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    """8 rows by 8 keys are a whole tile of sums."""
    return (model.worst_rate(model.scores_of_decode(loops(DECODE, compiler)), BFDOT, core),)


def _quads(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    return (min(model.worst_rate(loops(kernel["bf16"], compiler), BFMMLA, core) for kernel in (FORWARD, BACKWARD)),)


def _softmax(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    return tuple(model.cycles_per_score(loops(FORWARD[dtype], compiler), core) for dtype in DTYPES)


def _forward(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    return tuple(model.operations_per_cycle(loops(FORWARD[dtype], compiler), dtype, core) for dtype in DTYPES)


def _on_the_stack(loops: Loops, compiler: str, core: str) -> tuple[float, ...]:
    return tuple(float(len(model.on_the_stack(loops, dtype, compiler))) for dtype in DTYPES)


def _most(*limits: float) -> tuple[Goal, ...]:
    return tuple(Goal(limit, at_least=False) for limit in limits)


FIGURES = {
    "fmla V2": Figure(
        "fp32 products, forward and backward: multiply-adds a cycle, of 4", "V2", (Goal(3.8),), _multiply_adds
    ),
    "fmla N1": Figure("the same, of 2", "N1", (Goal(1.9),), _multiply_adds),
    "bfdot V2": Figure("`bfdot` a cycle, scores of decode, of 4", "V2", (Goal(3.8),), _pairs),
    "bfmmla V2": Figure("`bfmmla` a cycle, forward and backward, of 4", "V2", (Goal(3.6),), _quads),
    "softmax V2": Figure("cycles of the softmax for a score, fp32 / bf16", "V2", _most(1.75, 1.75), _softmax),
    "forward V2": Figure(
        "forward, d = 128: floating-point operations a cycle, fp32 / bf16", "V2", (Goal(28), Goal(80)), _forward
    ),
    "stack": Figure(
        "loads and stores of vectors on the stack in these loops, fp32 / bf16", "", _most(0, 0), _on_the_stack
    ),
}
