"""Regard against Regard: the cost of a case relative to a base, both measured in the same interleaved rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import ALONE, interleaved


@dataclass(frozen=True)
class Case:
    name: str
    problem: str
    threads: int = 0  # 0: those of the run
    lengths: tuple[int, ...] = ()  # of the sequences, when packed

    def flops(self) -> float:
        """FLOPs of the visible pairs."""
        import regard

        if not self.lengths:
            return regard.Problem(self.problem).flops
        dense = self.problem.replace(" varlen", "")
        words = [word for word in dense.split() if word.partition("=")[0] not in ("b", "s", "tq", "tk")]
        return sum(regard.Problem(" ".join([*words, f"s={length}"])).flops for length in self.lengths if length)


@dataclass(frozen=True)
class Comparison:
    """The first case is the base. claim: the goal that the comparison shows (goals.py)."""

    name: str
    claim: str
    cases: tuple[Case, ...]
    per_flop: bool = False  # compare costs per FLOP of visible pairs, not per call


def compare(comparison: Comparison, run: Run) -> list[dict[str, Any]]:
    """A line for each case, including the base (whose cost is 1)."""
    from bench.cpu.prepared import Prepared

    prepared = {
        case.name: Prepared(case.problem, case.threads or run.threads, case.lengths) for case in comparison.cases
    }
    times = interleaved(
        dict(prepared), run.threads, run.options.seconds * len(prepared), run.rounds, least=3, turn=ALONE
    )
    base = comparison.cases[0]
    work = {case.name: case.flops() for case in comparison.cases}
    if times.others > 0.05:
        print(f"    disturbed: other processes had {times.others:.0%} of the cores")
    lines = []
    for case in comparison.cases:
        cost = times.ratio(case.name, base.name)
        if comparison.per_flop:
            cost *= work[base.name] / work[case.name]
        lines.append(
            {
                "cell": f"{comparison.name} {case.name}",
                "claim": comparison.claim,
                "case": case.name,
                "base": base.name,
                **prepared[case.name].described,
                "regard_ms": times.median(case.name),
                "flops": work[case.name],
                "cost": cost,
                "rounds": times.rounds,
                "others": round(times.others, 3),
                "samples_ms": times.rounded(case.name),
            }
        )
        gflops = work[case.name] / times.median(case.name) / 1e6
        print(
            f"    {case.name:40} {times.median(case.name):9.2f} ms {gflops:7.1f} GFLOP/s  cost {cost:5.2f}", flush=True
        )
    return lines
