"""The table of bench/gpu/caches.py."""

from __future__ import annotations

from typing import Any

from bench.shared.markdown import MISSED, Line, paragraph, table


def _figure(row: dict[str, Any]) -> str:
    if "value" not in row:
        return "–"
    value = round(row["value"], 2)
    met = value >= row["bound"] if row["at_least"] else value <= row["bound"]
    return f"{value:.2f}{'' if met else ' ' + MISSED}"


def caches(lines: list[Line]) -> list[str]:
    first = lines[0]
    text = (
        f"{first['machine']}, {first['date']}, commit {first['commit']}. KV caches, bf16, 32 query and 8 K/V heads, "
        "d = 128, a cold second-level cache before each call, calls in turns; ratios of medians, of which "
        f"{MISSED} misses its bound, and – has no peer here or a call that was refused."
    )
    rows = [
        [line["cell"], row["name"], _figure(row), f"{'≥' if row['at_least'] else '≤'} {row['bound']:g}"]
        for line in lines
        for row in line["rows"]
    ]
    return paragraph(text) + table(["case", "figure", "", "bound"], rows)
