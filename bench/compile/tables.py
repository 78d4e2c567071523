"""Tables of cold compiles: CUDA kernels against their goals, CPU kernels beside the same kernel from the cache."""

from __future__ import annotations

from statistics import median

from bench.shared.markdown import MISSED, Line, paragraph, table

MEDIAN_SECONDS, WORST_SECONDS, PEAK_MB = 0.6, 0.9, 150
STEPS = ("source", "compiler", "key", "entry", "load")  # from the cache to a kernel that runs


def _cuda_row(name: str, lines: list[Line]) -> list[str]:
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


def _origin(line: Line) -> str:
    return f"{line['machine']}, one core, {line['date']}, commit {line['commit']}"


def cuda(lines: list[Line]) -> list[str]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(" ".join(line["kernel"].split()[:3]), []).append(line)
    rows = [_cuda_row(name, groups[name]) for name in sorted(groups)] + [_cuda_row("all", lines)]
    goals = f"median {MEDIAN_SECONDS} s, worst {WORST_SECONDS} s, {PEAK_MB} MB"
    return [
        *paragraph(f"{_origin(lines[0])}; goals: {goals}."),
        *table(["kernels", "sampled", "median s", "worst s", "peak MB"], rows),
    ]


def cpu(lines: list[Line]) -> list[str]:
    rows = []
    for line in lines:
        key, _, problem = line["kernel"].partition(" | ")
        steps = [f"{line[step]:.2f}" for step in ("cached_ms", *STEPS)]
        rows.append([" ".join(key.split()[:2]), problem, line["compiled_by"], f"{line['compile_s']:.2f}", *steps])
    text = f"{_origin(lines[0])}. Medians of {lines[0]['rounds']} rounds."
    head = ["kernel", "for", "by", "compile, s", "from the cache, ms", *(f"{step}, ms" for step in STEPS)]
    return [*paragraph(text), *table(head, rows)]
