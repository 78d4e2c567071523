"""Tables of bench/gpu.py: the forward grid and the other cases on an NVIDIA GPU."""

from __future__ import annotations

from goals import MISSED
from markdown import Line, geometric_mean, table

LEAST = 0.97  # of a cell's goal
NAMES = {"regard": "Regard", "regard mma_async": "Regard, portable", "cudnn": "cuDNN", "fa2": "FA2", "fa3": "FA3"}


def _figures(line: Line) -> list[str]:
    return [f"{line['tflops'][name]:.0f}" if name in line["tflops"] else "–" for name in NAMES]


def _of_goal(line: Line) -> str:
    if "of_goal" not in line:
        return "–"
    return f"{line['of_goal']:.3f}{'' if line['of_goal'] >= LEAST else ' ' + MISSED}"


def _cells(lines: list[Line], series: str) -> list[Line]:
    return [line for line in lines if line["cell"].startswith(series + " ")]


def cells(lines: list[Line]) -> list[str]:
    grid = [line["of_goal"] for line in _cells(lines, "grid")]
    origin = lines[0]
    text = [
        f"{origin['machine']}, {origin['date']}, commit {origin['commit']}. Forward, bf16 or as named, TFLOP/s, a cold "
        f"second-level cache before each call, contestants in turns. Beside them the figure over the cell's goal, the "
        f"best that cuDNN, FA3 and FA4 are known to reach (bench/gpu_cells.py); {MISSED} marks less than {LEAST}. Of "
        f"the grid the geometric mean is {geometric_mean(grid):.3f}, the least {min(grid):.3f}.",
        "",
    ]
    for series in ("grid", "cases"):
        rows = [
            [line["cell"].removeprefix(series + " "), *_figures(line), _of_goal(line)] for line in _cells(lines, series)
        ]
        text += table([series, *NAMES.values(), "of goal"], rows)
    for line in lines:
        if "host_us" in line:
            calls = ", ".join(f"{name} {value}" for name, value in line["host_us"].items())
            text += [f"Host time of a call from Python, in microseconds: {calls}.", ""]
        if "host_ns" in line:
            calls = ", ".join(f"{name} {value}" for name, value in line["host_ns"].items())
            text += [f"From C, in nanoseconds: {calls}.", ""]
    return text
