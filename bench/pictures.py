"""Pictures of the benchmark results as SVG: rates over sequence lengths, panels side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.cpu.goals import words
from bench.gpu.tables import NAMES
from bench.shared.machine import ROOT
from bench.shared.markdown import Line, gflops
from bench.shared.results import newest, read

WIDTH, HEIGHT = 270, 200  # of a panel's axes
LEFT, TOP, BETWEEN, BELOW = 60, 56, 52, 62
COLORS = {
    "Regard": "#d1495b",
    "Regard, portable": "#e7a977",
    "PyTorch": "#6f4e9c",
    "cuDNN": "#5b8e30",
    "FA2": "#8d96a3",
    "FA3": "#30638e",
}


@dataclass(frozen=True)
class Panel:
    title: str
    lengths: list[int]
    rates: dict[str, list[float | None]]  # TFLOP/s by name and length


def _ticks(top: float) -> list[float]:
    """Round numbers from 0 up to at least `top`, four to eight of them."""
    step = 10 ** math.floor(math.log10(top))
    step = next(step * factor for factor in (0.2, 0.5, 1.0, 2.0) if top / (step * factor) <= 7)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    ticks = _ticks(max(rate for rates in panel.rates.values() for rate in rates if rate))

    def x(i: int) -> float:
        return left + WIDTH * i / (len(panel.lengths) - 1)

    def y(rate: float) -> float:
        return top + HEIGHT * (1 - rate / ticks[-1])

    parts = [_text(left + WIDTH / 2, top - 10, panel.title, more=' font-weight="bold"')]
    for tick in ticks:
        parts.append(f'<path d="M{left} {y(tick):.1f}h{WIDTH}" stroke="#dddddd"/>')
        parts.append(_text(left - 6, y(tick) + 4, f"{tick:g}", "end"))
    parts += [_text(x(i), top + HEIGHT + 18, str(length)) for i, length in enumerate(panel.lengths)]
    for name, rates in reversed(panel.rates.items()):  # Regard's on top
        points = [(x(i), y(rate)) for i, rate in enumerate(rates) if rate]
        color, width = COLORS[name], 3 if name == "Regard" else 1.5
        line = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        parts.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{color}"/>' for px, py in points]
    return parts


def svg(title: str, rows: list[list[Panel]]) -> str:
    width = LEFT + len(rows[0]) * (WIDTH + BETWEEN)
    height = TOP + len(rows) * (HEIGHT + BELOW) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        '  font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(width / 2, 20, title, more=' font-size="14"'),
    ]
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            parts += _panel(panel, LEFT + j * (WIDTH + BETWEEN), TOP + i * (HEIGHT + BELOW))
    at = LEFT
    for name in dict.fromkeys(name for row in rows for panel in row for name in panel.rates):
        parts.append(f'<path d="M{at} {height - 16}h20" stroke="{COLORS[name]}" stroke-width="3"/>')
        parts.append(_text(at + 26, height - 12, name, "start"))
        at += 46 + 8 * len(name)
    parts.append(_text(width - BETWEEN, height - 12, "TFLOP/s over the sequence length", "end"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cpu_panel(lines: list[Line], measure: str, d: int, causal: bool) -> Panel:
    chosen = [x for x in lines if x["measure"] == measure and words(x)[:2] == ("bf16", d) and words(x)[3] == causal]
    ours = [gflops(line) / 1e3 for line in chosen]
    theirs = [line["flops"] / min(line["peers"].values()) / 1e9 for line in chosen]
    name = {"fwd": "forward", "fwd+bwd": "forward + backward"}[measure]
    title = f"CPU, {chosen[0]['threads']} threads: {name}"
    return Panel(title, [words(line)[2] for line in chosen], {"Regard": [*ours], "PyTorch": [*theirs]})


def _gpu_panel(lines: list[Line], title: str, d: int, mask: str, names: list[str]) -> Panel:
    chosen = [line for line in lines if line["cell"].startswith(f"grid d={d} {mask} ")]
    rates = {NAMES[name]: [line["tflops"].get(name) for line in chosen] for name in names}
    return Panel(title, [int(line["cell"].rpartition("=")[2]) for line in chosen], rates)


def _speed() -> str:
    """The picture in README.md."""
    cpu, gpu = read(newest("cpu")[-1]), read(newest("gpu")[-1])
    peers = [name for name in NAMES if name != "regard portable_forward"]
    panels = [
        _cpu_panel(cpu, "fwd", 128, True),
        _cpu_panel(cpu, "fwd+bwd", 128, True),
        _gpu_panel(gpu, f"{gpu[0]['machine']}: forward", 128, "causal", peers),
    ]
    return svg("Causal attention, bf16, d = 128", [panels])


def _gpu() -> str:
    """Every length of the forward grid."""
    lines = read(newest("gpu")[-1])
    origin = lines[0]
    rows = [
        [_gpu_panel(lines, f"d = {d}, {mask}", d, mask, list(NAMES)) for d in (64, 128, 256)]
        for mask in ("full", "causal")
    ]
    return svg(f"Forward, bf16, {origin['machine']}, {origin['date']}, commit {origin['commit']}", rows)


PICTURES: dict[str, Callable[[], str]] = {"speed.svg": _speed, "gpu.svg": _gpu}


def drawn() -> dict[Path, str]:
    return {ROOT / "docs/results" / name: draw() for name, draw in PICTURES.items()}
