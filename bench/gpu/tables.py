"""Tables of bench/gpu/forward.py: the forward grid and the other cases on an NVIDIA GPU."""

from __future__ import annotations

from bench.shared.markdown import MISSED, Line, geometric_mean, paragraph, table

LEAST = 0.97  # of a cell's goal
NAMES = {
    "regard": "Regard",
    "regard portable_forward": "Regard, portable",
    "cudnn": "cuDNN",
    "fa2": "FA2",
    "fa3": "FA3",
}


def _figures(line: Line) -> list[str]:
    return [f"{line['tflops'][name]:.0f}" if name in line["tflops"] else "–" for name in NAMES]


def _of_goal(line: Line) -> str:
    if "of_goal" not in line:
        return "–"
    return f"{line['of_goal']:.3f}{'' if line['of_goal'] >= LEAST else ' ' + MISSED}"


def _origin(lines: list[Line]) -> str:
    return f"{lines[0]['machine']}, {lines[0]['date']}, commit {lines[0]['commit']}"


def _cells(lines: list[Line], series: str) -> list[Line]:
    return [line for line in lines if line["cell"].startswith(series + " ")]


def cells(lines: list[Line]) -> list[str]:
    grid = [line["of_goal"] for line in _cells(lines, "grid")]
    text = paragraph(
        f"{_origin(lines)}. Forward, bf16 or as named, TFLOP/s, a cold "
        f"second-level cache before each call, contestants in turns. Beside them the figure over the cell's goal, the "
        f"best that cuDNN, FA3 and FA4 are known to reach (bench/gpu/cells.py); {MISSED} marks less than {LEAST}. Of "
        f"the grid the geometric mean is {geometric_mean(grid):.3f}, the least {min(grid):.3f}."
    )
    for series in ("grid", "cases"):
        rows = [
            [line["cell"].removeprefix(series + " "), *_figures(line), _of_goal(line)] for line in _cells(lines, series)
        ]
        text += table([series, *NAMES.values(), "of goal"], rows)
    for line in lines:
        if "host_us" in line:
            calls = ", ".join(f"{name} {value}" for name, value in line["host_us"].items())
            text += paragraph(f"Host time of a call from Python, in microseconds: {calls}.")
        if "host_ns" in line:
            calls = ", ".join(f"{name} {value}" for name, value in line["host_ns"].items())
            text += paragraph(f"From C, in nanoseconds: {calls}.")
    return text


def summary(lines: list[Line]) -> list[str]:
    """README's: short enough to be read at a glance."""
    grid = _cells(lines, "grid")
    rows = []
    for d in dict.fromkeys(line["cell"].split()[1] for line in grid):
        chosen = [line["tflops"] for line in grid if line["cell"].split()[1] == d]
        ratios = {peer: [rates["regard"] / rates[peer] for rates in chosen] for peer in ("cudnn", "fa2", "fa3")}
        cells = [f"{geometric_mean(values):.2f} (least {min(values):.2f})" for values in ratios.values()]
        rows.append([d.replace("=", " = "), *cells])
    text = f"{_origin(lines)}. Forward, bf16; geometric means over the grid."
    return [*paragraph(text), *table(["", "× cuDNN", "× FlashAttention-2", "× FlashAttention-3"], rows)]


def tests(lines: list[Line]) -> list[str]:
    """Of ./dev gpu-test: how many tests of each part did what."""
    words = ("passed", "failed", "skipped")
    rows = [[line["part"], *(str(line[word]) for word in words)] for line in lines]
    rows.append(["all", *(str(sum(line[word] for line in lines)) for word in words)])
    return [
        *paragraph(f"{_origin(lines)}."),
        *table(["part", *words], rows),
    ]
