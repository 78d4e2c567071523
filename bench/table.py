#!/usr/bin/env python3
"""Draws the Markdown tables of the benchmarks' results and puts them into README.md and docs/ between their markers.

table.py [--print NAME] [FILE.jsonl ...]; without files, of every series and machine the newest in bench/results. A
table stands between <!-- bench:NAME --> and <!-- /bench:NAME -->.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import compile_tables
import cost_tables
import gpu_tables
import grid_tables
from markdown import Line

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
# name: the series of results it is drawn from, how, and whether each machine gets one or only the newest file
TABLES: dict[str, tuple[str, Callable[[list[Line]], list[str]], bool]] = {
    "cpu": ("cpu", grid_tables.summary, False),
    "grid": ("cpu", grid_tables.everything, True),
    "goals": ("cpu", grid_tables.against_goals, True),
    "avx2": ("avx2", grid_tables.against_goals, True),
    "features": ("features", cost_tables.features, True),
    "sweep": ("sweep", cost_tables.sweep, True),
    "scaling": ("scaling", cost_tables.scaling, True),
    "gpu": ("gpu", gpu_tables.cells, True),
    "compile": ("compile", compile_tables.compiles, True),
}


def newest(series: str) -> list[Path]:
    """One file of each machine, the newest last; of one day the most complete. File names end in the date."""
    found: dict[str, Path] = {}
    for file in sorted(RESULTS.glob(f"{series}-*.jsonl"), key=lambda file: (file.stem[-10:], file.stat().st_size)):
        found.pop(file.stem[:-11], None)
        found[file.stem[:-11]] = file
    return list(found.values())


def read(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def render(name: str, files: list[Path]) -> str | None:
    """None without results."""
    series, draw, every_machine = TABLES[name]
    results = [lines for file in files or newest(series) if (lines := read(file))]
    results = [lines for lines in results if lines[0].get("series", "cpu") == series]
    if not results:
        return None
    text = "\n".join(text for lines in results[0 if every_machine else -1 :] for text in draw(lines))
    return text.rstrip() + "\n"


def spliced(page: str, files: list[Path]) -> str:
    """The page with every table drawn anew; one without results stays as it is."""

    def drawn(match: re.Match[str]) -> str:
        text = render(match[2], files) if match[2] in TABLES else None
        return match[0] if text is None else match[1] + text + match[3]

    return re.sub(r"(<!-- bench:([\w-]+) -->\n).*?(<!-- /bench:\2 -->)", drawn, page, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--print", choices=TABLES, metavar="NAME", help="only print one table: " + ", ".join(TABLES))
    options = parser.parse_args()
    missing = [str(file) for file in options.files if not file.exists()]
    if missing:
        print(f"there is no {missing[0]}; run bench/cpu.py or another benchmark first", file=sys.stderr)
        return 2
    if options.print:
        text = render(options.print, options.files)
        print(text or f"no results of '{TABLES[options.print][0]}': run ./dev bench {TABLES[options.print][0]}")
        return 0 if text else 2
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        if (new := spliced(text, options.files)) != text:
            page.write_text(new)
            print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
