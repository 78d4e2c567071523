"""The tables of what models and builds say of the kernels and wheels for AArch64."""

from __future__ import annotations

from bench.arm.figures import FIGURES, Figure
from bench.arm.loops import COMPILERS
from bench.shared.markdown import MISSED, Line, paragraph, table


def _digits(figure: Figure) -> int:
    most = max(goal.limit for goal in figure.goals)
    return 0 if most == 0 else 2 if most < 10 else 1


def _values(figure: Figure, values: list[float]) -> str:
    """The values as they are printed, with a mark if one misses its goal."""
    text = " / ".join(f"{value:.{_digits(figure)}f}" for value in values)
    met = all(goal.met(value) for goal, value in zip(figure.goals, values))  # noqa: B905
    return text if met else f"{text} {MISSED}"


def modelled(lines: list[Line]) -> list[str]:
    found = {line["cell"]: line["values"] for line in lines if "values" in line}
    rows = []
    for name, figure in FIGURES.items():
        goals = " / ".join(dict.fromkeys(str(goal) for goal in figure.goals))
        cells = (_values(figure, found[name][compiler]) for compiler in COMPILERS)
        rows.append([figure.text, figure.core or "–", goals, *cells])
    return [
        *paragraph(f"{lines[0]['machine']} and clang++ 19, {lines[0]['date']}, commit {lines[0]['commit']}."),
        *table(["", "core", "goal", *COMPILERS], rows),
    ]


def counted(lines: list[Line]) -> list[str]:
    rows = [
        [line["cell"], line["goal"], line["found"] + ("" if line["met"] else f" {MISSED}")]
        for line in lines
        if "found" in line
    ]
    return table(["", "goal", "found"], rows)
