"""Tables of bench/gpu/: the grids of forward and backward and the other cases on an NVIDIA GPU, and training steps."""

from __future__ import annotations

from collections.abc import Iterable

from bench.shared.markdown import MISSED, Line, geometric_mean, paragraph, table

LEAST = 0.97  # of a cell's goal
NAMES = {
    "regard": "Regard",
    "regard portable_forward": "Regard, portable",
    "cudnn": "cuDNN",
    "fa2": "FA2",
    "fa3": "FA3",
}


BACKWARD_NAMES = {
    "regard": "Regard",
    "regard portable_backward": "Regard, portable",
    "cudnn": "cuDNN",
    "fa2": "FA2",
    "fa4": "FA4",
}


def _figures(line: Line, names: Iterable[str] = NAMES) -> list[str]:
    return [f"{line['tflops'][name]:.0f}" if name in line["tflops"] else "–" for name in names]


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
    """The table in README.md, short enough to read at a glance."""
    grid = _cells(lines, "grid")
    rows = []
    for d in dict.fromkeys(line["cell"].split()[1] for line in grid):
        chosen = [line["tflops"] for line in grid if line["cell"].split()[1] == d]
        ratios = {peer: [rates["regard"] / rates[peer] for rates in chosen] for peer in ("cudnn", "fa2", "fa3")}
        cells = [f"{geometric_mean(values):.2f} (least {min(values):.2f})" for values in ratios.values()]
        rows.append([d.replace("=", " = "), *cells])
    text = f"{_origin(lines)}. Forward, bf16; geometric means over the grid."
    return [*paragraph(text), *table(["", "× cuDNN", "× FlashAttention-2", "× FlashAttention-3"], rows)]


def _ratio(line: Line, name: str) -> str:
    return f"{line[name]:.2f}" if name in line else "–"


def backward(lines: list[Line]) -> list[str]:
    grid, beside = _cells(lines, "grid"), _cells(lines, "beside")
    text = f"{_origin(lines)}. Backward alone, bf16, TFLOP/s, measured as forward is."
    if of_goal := [line["of_goal"] for line in grid if "of_goal" in line]:
        text += (
            f" Goals are the best that cuDNN, FA3 and FA4 are known to reach (bench/gpu/backward_cells.py); {MISSED} "
            f"marks less than {LEAST}. Of the grid the geometric mean is {geometric_mean(of_goal):.3f}, the least "
            f"{min(of_goal):.3f}."
        )
    if not any("fa4" in line["tflops"] for line in grid):
        text += " FA4 was not there: its column goes by what it is known to have over cuDNN."
    names = {name: word for name, word in BACKWARD_NAMES.items() if any(name in line["tflops"] for line in lines)}
    rows = [
        [
            line["cell"].removeprefix("grid "),
            *_figures(line, names),
            _ratio(line, "over_cudnn"),
            _ratio(line, "over_fa4"),
            _of_goal(line),
            _ratio(line, "over_fa2"),
        ]
        for line in grid
    ]
    page = paragraph(text) + table(["grid", *names.values(), "× cuDNN", "× FA4", "of goal", "portable × FA2"], rows)
    rows = [
        [
            line["cell"].removeprefix("beside "),
            *_figures(line, [*names, "base"]),
            _ratio(line, "over_base"),
            _ratio(line, "goal"),
        ]
        for line in beside
    ]
    if rows:
        page += paragraph(
            "Beside the plain cell of the same size, per visible FLOP (a deterministic call beside one that is not, "
            "packed sequences beside two of 8192, a window beside a full square, whose goal is a share of the tiles "
            "that it must compute):"
        )
        page += table(["case", *names.values(), "plain", "× plain", "goal"], rows)
    return page


def backward_summary(lines: list[Line]) -> list[str]:
    """The table of backward in README.md."""
    grid = _cells(lines, "grid")
    rows = []
    for d in dict.fromkeys(line["cell"].split()[1] for line in grid):
        chosen = [line["tflops"] for line in grid if line["cell"].split()[1] == d]
        cells = []
        for peer in ("cudnn", "fa2"):
            ratios = [rates["regard"] / rates[peer] for rates in chosen if peer in rates and "regard" in rates]
            cells.append(f"{geometric_mean(ratios):.2f} (least {min(ratios):.2f})" if ratios else "–")
        rows.append([d.replace("=", " = "), *cells])
    text = f"{_origin(lines)}. Backward alone, bf16; geometric means over the grid."
    return [*paragraph(text), *table(["", "× cuDNN", "× FlashAttention-2"], rows)]


def training(lines: list[Line]) -> list[str]:
    """The whole training steps of ./dev gpu-bench training."""
    rows = [
        [line["cell"], *(f"{line['ms'][name]:.1f}" for name in ("regard", "sdpa", "none")), f"{line['over_sdpa']:.3f}"]
        for line in lines
    ]
    head = ["a step of training, ms", "Regard", "PyTorch's attention", "no attention", "PyTorch's ÷ Regard's"]
    return [*paragraph(f"{_origin(lines)}."), *table(head, rows)]


def tests(lines: list[Line]) -> list[str]:
    """The outcomes of the tests of ./dev gpu-test, counted by part."""
    words = ("passed", "failed", "skipped")
    rows = [[line["part"], *(str(line[word]) for word in words)] for line in lines]
    rows.append(["all", *(str(sum(line[word] for line in lines)) for word in words)])
    return [
        *paragraph(f"{_origin(lines)}."),
        *table(["part", *words], rows),
    ]
