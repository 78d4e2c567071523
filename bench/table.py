#!/usr/bin/env python3
"""Draws the Markdown tables of a benchmark's results and puts them into README.md between its markers.

table.py [FILE.jsonl] [--no-readme]; without a file the newest bench/results/cpu-*.jsonl. The tables stand in
README.md between <!-- bench:cpu --> and <!-- /bench:cpu -->.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def read(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def speedup(line: Line) -> float:
    """Over PyTorch's best form."""
    return min(line["peers"].values()) / line["regard_ms"]


def ceiling(line: Line) -> float:
    return next(iter(line["ceilings"].values()))


def gflops(line: Line) -> float:
    return line["flops"] / line["regard_ms"] / 1e6


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def words(line: Line) -> tuple[str, int, int, bool]:
    """dtype, d, s and causal, from the cell's name."""
    _, dtype, d, s, mask = line["cell"].split()
    return dtype, int(d[1:]), int(s[1:]), mask == "causal"


def attention_table(lines: list[Line]) -> list[str]:
    found = {(line["measure"], *words(line)): line for line in lines if line["measure"] != "decode"}
    if not found:
        return []

    def entry(measure: str, key: tuple[str, int, int]) -> list[str]:
        pair = [found.get((measure, *key, causal)) for causal in (False, True)]
        if None in pair:
            return ["–", "–", "–"]
        return [
            " / ".join(f"{gflops(line):.0f}" for line in pair),
            " / ".join(f"{speedup(line):.2f}" for line in pair),
            " / ".join(f"{gflops(line) / ceiling(line):.2f}" for line in pair),
        ]

    head = ["", "d", "s"]
    for measure in ("forward", "forward+backward"):
        head += [f"{measure}, GFLOP/s full / causal", "× PyTorch", "÷ product"]
    table = [row(head), row(["---"] * len(head))]
    keys = list(dict.fromkeys(key[1:4] for key in found))
    table += [row([key[0], str(key[1]), str(key[2]), *entry("fwd", key), *entry("fwd+bwd", key)]) for key in keys]
    return [*table, ""]


def decode_table(lines: list[Line]) -> list[str]:
    decode = [line for line in lines if line["measure"] == "decode"]
    if not decode:
        return []
    table = [row(["decode", "ms", "PyTorch's best, ms", "× PyTorch", "÷ plain read"]), row(["---"] * 5)]
    for line in decode:
        dtype, d, s, _ = words(line)
        tensors = 2 * s * 8 * d * (4 if dtype == "fp32" else 2)  # K and V
        rate = tensors / line["regard_ms"] / 1e6
        table.append(
            row(
                [
                    f"{dtype}, 32/8 heads, d={d}, {s} keys",
                    f"{line['regard_ms']:.2f}",
                    f"{min(line['peers'].values()):.2f}",
                    f"{speedup(line):.1f}",
                    f"{rate / ceiling(line):.2f}",
                ]
            )
        )
    return [*table, ""]


def means(lines: list[Line]) -> list[str]:
    groups: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        groups.setdefault((words(line)[0], line["measure"]), []).append(speedup(line))
    parts = [
        f"{dtype} {measure} {geometric_mean(values):.2f} (least {min(values):.2f})"
        for (dtype, measure), values in groups.items()
    ]
    return ["Times PyTorch, geometric mean: " + ", ".join(parts) + ".", ""]


def provenance(lines: list[Line]) -> list[str]:
    first = lines[0]
    peaks = [(line["peak_bytes"], line["peer_peak_bytes"], line["cell"]) for line in lines if line["peak_bytes"]]
    sentence = (
        f"{first['machine']}, {first['threads']} threads, {first['date']}, commit {first['commit']}. Medians of "
        "interleaved rounds in one process; the product is a 2048³ matrix product of the same run (OpenBLAS for fp32, "
        "oneDNN in bf16 for the others)."
    )
    if peaks:
        ours, theirs, cell = max(peaks)
        sentence += (
            f" Most memory of a cell, results included: {ours / 2**20:.0f} MiB ({cell}; PyTorch {theirs / 2**20:.0f})."
        )
    return [sentence, ""]


def render(lines: list[Line]) -> str:
    return "\n".join([*provenance(lines), *means(lines), *attention_table(lines), *decode_table(lines)]).rstrip() + "\n"


def splice(readme: str, text: str) -> str | None:
    """README with `text` between the markers, or None when it has none."""
    pattern = re.compile(r"(<!-- bench:cpu -->\n).*?(<!-- /?bench:cpu -->)", re.DOTALL)
    if not pattern.search(readme):
        return None
    return pattern.sub(lambda match: match[1] + text + match[2], readme, count=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--no-readme", action="store_true", help="only print")
    options = parser.parse_args()
    newest = sorted((ROOT / "bench/results").glob("cpu-*.jsonl"), key=lambda file: file.stat().st_mtime)
    file = options.file or (newest[-1] if newest else None)
    if file is None or not file.exists():
        print(f"no results{f' in {file}' if file else ''}: run bench/cpu.py first", file=sys.stderr)
        return 2
    text = render(read(file))
    print(text, end="")
    readme = ROOT / "README.md"
    if options.no_readme or not readme.exists():
        return 0
    spliced = splice(readme.read_text(), text)
    if spliced is None:
        print("README.md has no markers <!-- bench:cpu --> and <!-- /bench:cpu -->", file=sys.stderr)
        return 1
    readme.write_text(spliced)
    return 0


if __name__ == "__main__":
    sys.exit(main())
