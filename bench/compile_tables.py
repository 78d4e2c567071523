"""Table of bench/compile.py: cold compiles of CUDA kernels against their goals."""

from __future__ import annotations

from statistics import median

from goals import MISSED
from markdown import Line, table

MEDIAN_SECONDS, WORST_SECONDS, PEAK_MB = 0.6, 0.9, 150


def _row(name: str, lines: list[Line]) -> list[str]:
    def against(goal: float, figure: float, digits: int) -> str:
        return f"{figure:.{digits}f}{' ' + MISSED if figure > goal else ''}"

    seconds = [line["seconds"] for line in lines]
    return [
        name,
        str(len(lines)),
        against(MEDIAN_SECONDS, median(seconds), 2),
        against(WORST_SECONDS, max(seconds), 2),
        against(PEAK_MB, max(line["peak_bytes"] for line in lines) / 1e6, 0),
    ]


def compiles(lines: list[Line]) -> list[str]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(" ".join(line["kernel"].split()[:3]), []).append(line)
    rows = [_row(name, groups[name]) for name in sorted(groups)] + [_row("all", lines)]
    origin = lines[0]
    return [
        f"{origin['machine']}, one core, {origin['date']}, commit {origin['commit']}; goals: median "
        f"{MEDIAN_SECONDS} s, worst {WORST_SECONDS} s, {PEAK_MB} MB.",
        "",
        *table(["kernels", "sampled", "median s", "worst s", "peak MB"], rows),
    ]
