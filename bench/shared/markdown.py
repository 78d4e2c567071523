"""Parts that all tables share."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

Line = dict[str, Any]
MISSED = "✗"  # next to a figure that misses its goal


def paragraph(text: str) -> list[str]:
    """Wraps the text to 120 columns, as on the other pages, and adds an empty line."""
    return [*textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), ""]


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [row(head), row(["---"] * len(head)), *map(row, rows), ""] if rows else []


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def gflops(line: Line) -> float:
    return line["flops"] / line["regard_ms"] / 1e6


def provenance(lines: list[Line]) -> str:
    commits = list(dict.fromkeys(line["commit"] for line in lines))
    threads = max(line["threads"] for line in lines)
    word = "commit" if len(commits) == 1 else "commits"
    return f"{lines[0]['machine']}, {threads} threads, {lines[0]['date']}, {word} {', '.join(commits)}."
