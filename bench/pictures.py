"""Pictures of the benchmark results as SVG, panels side by side: rates over sequence lengths, and bars for decode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.cpu.goals import words
from bench.cpu.grid_tables import ceiling, rate, speedup
from bench.gpu.tables import BACKWARD_NAMES, NAMES
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
    "FA4": "#d8a31a",
}
OVER_LENGTHS = "TFLOP/s over the sequence length"


@dataclass(frozen=True)
class Panel:
    title: str
    lengths: list[int]
    rates: dict[str, list[float | None]]  # TFLOP/s by name and length


@dataclass(frozen=True)
class Bars:
    """Shares of a ceiling: a group of bars for each case."""

    title: str
    ceiling: str
    cases: list[tuple[str, str]]  # what stands below each group, in two lines
    shares: dict[str, list[float]]  # by name and case


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


def _bars(bars: Bars, left: float, top: float) -> list[str]:
    highest = 1.05 * max(1.15, *(share for shares in bars.shares.values() for share in shares))

    def y(share: float) -> float:
        return top + HEIGHT * (1 - share / highest)

    parts = [_text(left + WIDTH / 2, top - 10, bars.title, more=' font-weight="bold"')]
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        line = ' stroke="#555555" stroke-dasharray="4 3"' if tick == 1 else ' stroke="#dddddd"'
        parts.append(f'<path d="M{left} {y(tick):.1f}h{WIDTH}"{line}/>')
        parts.append(_text(left - 6, y(tick) + 4, f"{tick:g}", "end"))
    parts.append(_text(left + WIDTH, y(1) - 6, bars.ceiling, "end"))
    step = WIDTH / len(bars.cases)
    width = min(24, 0.8 * step / len(bars.shares))
    for i, case in enumerate(bars.cases):
        middle = left + step * (i + 0.5)
        for j, (name, shares) in enumerate(bars.shares.items()):
            x, above = middle + width * (j - len(bars.shares) / 2), y(shares[i])
            bottom = y(0) - above
            parts.append(
                f'<rect x="{x:.1f}" y="{above:.1f}" width="{width:.1f}" height="{bottom:.1f}" fill="{COLORS[name]}"/>'
            )
            number = ' font-size="10" fill="white"'
            parts.append(_text(x + width / 2, above + 13, f"{shares[i]:.2f}", more=number))
        small = ' font-size="10"'
        parts += [_text(middle, y(0) + 16 + 14 * line, word, more=small) for line, word in enumerate(case)]
    return parts


def svg(title: str, rows: Sequence[Sequence[Panel | Bars]], below: str = OVER_LENGTHS) -> str:
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
            left, top = LEFT + j * (WIDTH + BETWEEN), TOP + i * (HEIGHT + BELOW)
            parts += _panel(panel, left, top) if isinstance(panel, Panel) else _bars(panel, left, top)
    at = LEFT
    panels = [panel for row in rows for panel in row]
    names = [name for panel in panels for name in (panel.rates if isinstance(panel, Panel) else panel.shares)]
    for name in dict.fromkeys(names):
        parts.append(f'<path d="M{at} {height - 16}h20" stroke="{COLORS[name]}" stroke-width="3"/>')
        parts.append(_text(at + 26, height - 12, name, "start"))
        at += 46 + 8 * len(name)
    parts.append(_text(width - BETWEEN, height - 12, below, "end"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cpu_panel(lines: list[Line], measure: str, d: int, causal: bool) -> Panel:
    chosen = [x for x in lines if x["measure"] == measure and words(x)[:2] == ("bf16", d) and words(x)[3] == causal]
    ours = [gflops(line) / 1e3 for line in chosen]
    theirs = [line["flops"] / min(line["peers"].values()) / 1e9 for line in chosen]
    name = {"fwd": "forward", "fwd+bwd": "forward + backward"}[measure]
    title = f"CPU, {chosen[0]['threads']} threads: {name}"
    return Panel(title, [words(line)[2] for line in chosen], {"Regard": [*ours], "PyTorch": [*theirs]})


def _cpu_decode(lines: list[Line]) -> Bars:
    chosen = [line for line in lines if line["measure"] == "decode" and line["ceilings"]]
    ours = [rate(line) / ceiling(line) for line in chosen]
    theirs = [share / speedup(line) for share, line in zip(ours, chosen, strict=True)]
    cases = [(words(line)[0], f"{words(line)[2]} keys") for line in chosen]
    title = f"CPU, {chosen[0]['threads']} threads: decode"
    return Bars(title, "a plain read of K and V", cases, {"Regard": ours, "PyTorch": theirs})


def _gpu_decode(lines: list[Line]) -> Bars:
    """The figures that are shares of a plain read."""
    of_read = ", of read"
    rows = [
        (row["name"].removesuffix(of_read), line["cell"], row["value"])
        for line in lines
        for row in line["rows"]
        if row["name"].endswith(of_read) and "value" in row
    ]
    cases = [(name, cell) for name, cell, _ in rows]
    title = f"{lines[0]['machine']}: decode"
    return Bars(title, "a plain read of K and V", cases, {"Regard": [share for _, _, share in rows]})


def _gpu_panel(lines: list[Line], title: str, d: int, mask: str, peers: dict[str, str]) -> Panel:
    """peers: names in the lines, and in the picture."""
    chosen = [line for line in lines if line["cell"].startswith(f"grid d={d} {mask} ")]
    known = {peer: name for peer, name in peers.items() if any(peer in line["tflops"] for line in chosen)}
    rates = {name: [line["tflops"].get(peer) for line in chosen] for peer, name in known.items()}
    return Panel(title, [int(line["cell"].rpartition("=")[2]) for line in chosen], rates)


def _without_portable(names: dict[str, str]) -> dict[str, str]:
    return {peer: name for peer, name in names.items() if "portable" not in peer}


def speed_panels() -> list[list[Panel | Bars]]:
    """CPU above GPU, each with forward, backward and decode."""
    cpu, gpu, backward, caches = (read(newest(series)[-1]) for series in ("cpu", "gpu", "backward", "caches"))
    forward_title, backward_title = f"{gpu[0]['machine']}: forward", f"{backward[0]['machine']}: backward"
    return [
        [_cpu_panel(cpu, "fwd", 128, True), _cpu_panel(cpu, "fwd+bwd", 128, True), _cpu_decode(cpu)],
        [
            _gpu_panel(gpu, forward_title, 128, "causal", _without_portable(NAMES)),
            _gpu_panel(backward, backward_title, 128, "causal", _without_portable(BACKWARD_NAMES)),
            _gpu_decode(caches),
        ],
    ]


def _speed() -> str:
    """The picture in README.md."""
    title = (
        "Attention in bf16, d = 128, causal: TFLOP/s over the sequence length; "
        "decode: its rate over that of a plain read"
    )
    return svg(title, speed_panels(), below="")


def _gpu() -> str:
    """Every length of the forward grid."""
    lines = read(newest("gpu")[-1])
    origin = lines[0]
    rows = [
        [_gpu_panel(lines, f"d = {d}, {mask}", d, mask, NAMES) for d in (64, 128, 256)] for mask in ("full", "causal")
    ]
    return svg(f"Forward, bf16, {origin['machine']}, {origin['date']}, commit {origin['commit']}", rows)


PICTURES: dict[str, Callable[[], str]] = {"speed.svg": _speed, "gpu.svg": _gpu}


def drawn() -> dict[Path, str]:
    return {ROOT / "docs/results" / name: draw() for name, draw in PICTURES.items()}
