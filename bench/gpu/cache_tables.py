"""The tables of bench/gpu/caches.py and bench/gpu/latent.py."""

from __future__ import annotations

from typing import Any

from bench.shared.markdown import MISSED, Line, paragraph, table


def _figure(row: dict[str, Any]) -> str:
    if "value" not in row:
        return "–"
    value = round(row["value"], 2)
    met = row["bound"] is None or (value >= row["bound"] if row["at_least"] else value <= row["bound"])
    return f"{value:.2f}{'' if met else ' ' + MISSED}"


def _bound(row: dict[str, Any]) -> str:
    return "" if row["bound"] is None else f"{'≥' if row['at_least'] else '≤'} {row['bound']:g}"


def _table(text: str, lines: list[Line]) -> list[str]:
    rows = [[line["cell"], row["name"], _figure(row), _bound(row)] for line in lines for row in line["rows"]]
    return paragraph(text) + table(["case", "figure", "", "bound"], rows)


def _conditions(lines: list[Line]) -> str:
    first = lines[0]
    return (
        f"{first['machine']}, {first['date']}, commit {first['commit']}. A cold second-level cache before each call, "
        f"alternating calls; ratios of medians, of which {MISSED} misses its bound, and – has no peer here or a call "
        "that was refused."
    )


def caches(lines: list[Line]) -> list[str]:
    return _table(f"{_conditions(lines)} KV caches, bf16, 32 query and 8 K/V heads, d = 128.", lines)


def latent(lines: list[Line]) -> list[str]:
    return _table(
        f"{_conditions(lines)} Decoding with latent attention, bf16, d = 576, dv = 512; sequences x keys.", lines
    )
