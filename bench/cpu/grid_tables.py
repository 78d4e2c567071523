"""Tables of the grid: Regard against PyTorch and the ceilings."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.cpu.goals import Goal, ceiling_goal, is_few, marked, mean_goal, speed_goal, words
from bench.shared.markdown import Line, geometric_mean, gflops, paragraph, provenance, table

METHOD = (
    "Medians of interleaved rounds in one process; the product is a 2048³ matrix product of the same run (OpenBLAS for "
    "fp32, oneDNN in bf16 for the others)."
)


def speedup(line: Line) -> float:
    """The speedup over PyTorch's best form."""
    return min(line["peers"].values()) / line["regard_ms"]


def ceiling(line: Line) -> float:
    """GFLOP/s of the matrix product, or GB/s of the read."""
    return next(iter(line["ceilings"].values()))


def rate(line: Line) -> float:
    """Regard's rate in the unit of the ceiling."""
    if line["measure"] != "decode":
        return gflops(line)
    dtype, d, s, _ = words(line)
    return 2 * s * 8 * d * (4 if dtype == "fp32" else 2) / line["regard_ms"] / 1e6  # K and V


def share(line: Line) -> float:
    """The share of the ceiling that Regard reaches; NaN if no ceiling was measured."""
    return rate(line) / ceiling(line) if line["ceilings"] else math.nan


def groups(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((words(line)[0], line["measure"]), []).append(line)
    return found


def summary(lines: list[Line]) -> list[str]:
    """The table in README.md, short enough to read at a glance."""
    found = groups(lines)

    def entry(dtype: str, measure: str) -> str:
        values = [speedup(line) for line in found.get((dtype, measure), [])]
        least = f" (least {min(values):.2f})" if len(values) > 1 else ""
        return f"{geometric_mean(values):.2f}{least}" if values else "–"

    measures = ("fwd", "fwd+bwd", "decode")
    rows = [[dtype, *(entry(dtype, measure) for measure in measures)] for dtype in dict.fromkeys(x for x, _ in found)]
    head = ["× PyTorch", "forward", "forward + backward", "decode"]
    return [*paragraph(f"{provenance(lines)} Geometric means over the grid."), *table(head, rows)]


def attention(lines: list[Line]) -> list[str]:
    """Full and causal side by side, with missed goals marked."""
    found = {(line["measure"], *words(line)): line for line in lines if line["measure"] in ("fwd", "fwd+bwd")}

    def entry(measure: str, key: tuple[str, int, int]) -> list[str]:
        pair = [line for causal in (False, True) if (line := found.get((measure, *key, causal)))]
        if len(pair) < 2:
            return ["–", "–", "–"]
        return [
            " / ".join(f"{gflops(line):.0f}" for line in pair),
            " / ".join(marked(speedup(line), speed_goal(line)) for line in pair),
            " / ".join(marked(share(line), ceiling_goal(line)) for line in pair),
        ]

    head = ["", "d", "s"]
    for measure in ("forward", "forward+backward"):
        head += [f"{measure}, GFLOP/s full / causal", "× PyTorch", "÷ product"]
    keys = list(dict.fromkeys(key[1:4] for key in found))
    return table(head, [[*map(str, key), *entry("fwd", key), *entry("fwd+bwd", key)] for key in keys])


def against_many_keys(lines: list[Line]) -> list[str]:
    """One query row, and a few, with 32 query heads on 8, with missed goals marked."""

    def rows(chosen: list[Line], rows_of_head: Callable[[Line], str]) -> list[list[str]]:
        return [
            [
                f"{words(line)[0]}, {rows_of_head(line)}32/8 heads, d={words(line)[1]}, {words(line)[2]} keys",
                f"{line['regard_ms']:.2f}",
                f"{min(line['peers'].values()):.2f}",
                marked(speedup(line), speed_goal(line)),
                marked(share(line), ceiling_goal(line)),
            ]
            for line in chosen
        ]

    head = ["ms", "PyTorch's best, ms", "× PyTorch"]
    one = rows([line for line in lines if line["measure"] == "decode"], lambda line: "")
    few = rows([line for line in lines if is_few(line)], lambda line: f"{line['measure'][3:]} rows of ")
    return [
        *(table(["decode", *head, "÷ plain read"], one) if one else []),
        *(table(["few rows", *head, "÷ product"], few) if few else []),
    ]


def against_goals(lines: list[Line]) -> list[str]:
    """Every goal with its worst figure, then all the figures, with missed goals marked."""

    def goal_row(name: str, goal: Goal, values: list[tuple[float, str]]) -> list[str]:
        value = goal.worst([value for value, _ in values])
        cell = next(cell for other, cell in values if other == value)
        missed = sum(not goal.met(value) for value, _ in values)
        return [name, str(goal), goal.marked(value), cell, f"{len(values) - missed} of {len(values)}"]

    rows = []
    for (dtype, measure), group in groups(lines).items():
        for what, figure, goal_of in (("× PyTorch", speedup, speed_goal), ("÷ ceiling", share, ceiling_goal)):
            by_goal: dict[Goal, list[tuple[float, str]]] = {}
            for line in group:
                if (goal := goal_of(line)) and not math.isnan(figure(line)):
                    by_goal.setdefault(goal, []).append((figure(line), line["cell"]))
            rows += [goal_row(f"{dtype} {measure}, {what}", goal, values) for goal, values in by_goal.items()]
        if goal := mean_goal(group):
            mean = geometric_mean([speedup(line) for line in group])
            rows.append([f"{dtype} {measure}, geometric mean", str(goal), goal.marked(mean), "", ""])
    head = ["", "goal", "worst", "where", "cells that meet it"]
    return [
        *paragraph(f"{provenance(lines)} {METHOD}"),
        *table(head, rows),
        *attention(lines),
        *against_many_keys(lines),
    ]


def _mib(size: int | None) -> str:
    return "–" if size is None else f"{size / 2**20:.0f}"


def everything(lines: list[Line]) -> list[str]:
    """One line per cell, with the ceilings and the memory."""
    rows = []
    for line in lines:
        unit = "GB/s" if line["measure"] == "decode" else "GFLOP/s"
        rows.append(
            [
                line["cell"],
                f"{line['regard_ms']:.2f}",
                f"{min(line['peers'].values()):.2f}",
                f"{speedup(line):.2f}",
                f"{rate(line):.0f}",
                f"{ceiling(line):.0f} {unit}" if line["ceilings"] else "–",
                marked(share(line), None),
                f"{_mib(line['peak_bytes'])} / {_mib(line['peer_peak_bytes'])}",
            ]
        )
    head = ["cell", "ms", "PyTorch's best, ms", "× PyTorch", "rate", "ceiling", "÷ ceiling", "peak MiB / PyTorch's"]
    return [*paragraph(provenance(lines)), *table(head, rows)]
