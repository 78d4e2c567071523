#!/usr/bin/env python3
"""Makes the tables and pictures of the benchmark results, and puts the tables into README.md and docs/results/.

python -m bench.tables [--print NAME] [FILE.jsonl ...]; without files, the newest of every series and machine. A table
is placed between <!-- bench:NAME --> and <!-- /bench:NAME -->.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from bench import pictures, regret
from bench.amd import tables as amd_tables
from bench.arm import tables as arm_tables
from bench.compile import tables as compile_tables
from bench.cpu import cache_tables as cpu_cache_tables
from bench.cpu import cost_tables, grid_tables
from bench.gpu import cache_tables, function_tables
from bench.gpu import tables as gpu_tables
from bench.shared.machine import ROOT
from bench.shared.markdown import Line
from bench.shared.results import newest, read

# name: the series of results, the function that makes the table, and whether each machine gets one or only the newest
TABLES: dict[str, tuple[str, Callable[[list[Line]], list[str]], bool]] = {
    "cpu": ("cpu", grid_tables.summary, False),
    "grid": ("cpu", grid_tables.everything, True),
    "goals": ("cpu", grid_tables.against_goals, True),
    "avx2": ("avx2", grid_tables.against_goals, True),
    "features": ("features", cost_tables.features, True),
    "sweep": ("sweep", cost_tables.sweep, True),
    "scaling": ("scaling", cost_tables.scaling, True),
    "vllm": ("vllm", cpu_cache_tables.vllm, True),
    "latent": ("latent", cpu_cache_tables.latent, True),
    "functions": ("functions", cost_tables.functions, True),
    "gpu": ("gpu", gpu_tables.cells, True),
    "gpu-summary": ("gpu", gpu_tables.summary, False),
    "backward": ("backward", gpu_tables.backward, True),
    "backward-summary": ("backward", gpu_tables.backward_summary, False),
    "regret": ("regret", regret.summary, True),
    "caches": ("caches", cache_tables.caches, True),
    "mla": ("mla", cache_tables.latent, True),
    "gpu-functions": ("flex", function_tables.functions, True),
    "training": ("training", gpu_tables.training, True),
    "gpu-tests": ("checks", gpu_tables.tests, True),
    "compile": ("compile", compile_tables.cuda, True),
    "hip": ("hip", compile_tables.hip, True),
    "kernels": ("kernels", compile_tables.cpu, True),
    "build": ("build", compile_tables.build, True),
    "amd": ("amd", amd_tables.bounds, True),
    "arm": ("arm", arm_tables.modelled, True),
    "arm-builds": ("arm", arm_tables.counted, True),
}


def render(name: str, files: list[Path]) -> str | None:
    """The table `name`; None without results."""
    series, draw, every_machine = TABLES[name]
    results = [lines for file in files or newest(series) if (lines := read(file))]
    results = [lines for lines in results if lines[0].get("series", "cpu") == series]
    if not results:
        return None
    text = "\n".join(text for lines in results[0 if every_machine else -1 :] for text in draw(lines))
    return text.rstrip() + "\n"


def spliced(page: str, files: list[Path]) -> str:
    """The page with every table updated; a table without results stays as it is."""

    def drawn(match: re.Match[str]) -> str:
        text = render(match[2], files) if match[2] in TABLES else None
        return match[0] if text is None else match[1] + text + match[3]

    return re.sub(r"(<!-- bench:([\w-]+) -->\n).*?(<!-- /bench:\2 -->)", drawn, page, flags=re.DOTALL)


def drawn(files: list[Path]) -> dict[Path, str]:
    """The contents of README.md and docs/results/ with everything updated."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/results").glob("*.md"))]
    return {page: spliced(page.read_text(), files) for page in pages} | ({} if files else pictures.drawn())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--print", choices=TABLES, metavar="NAME", help="only print one table: " + ", ".join(TABLES))
    options = parser.parse_args()
    missing = [str(file) for file in options.files if not file.exists()]
    if missing:
        print(f"there is no {missing[0]}; run ./dev bench cpu or another benchmark first", file=sys.stderr)
        return 2
    if options.print:
        text = render(options.print, options.files)
        print(text or f"no results of '{TABLES[options.print][0]}': run ./dev bench {TABLES[options.print][0]}")
        return 0 if text else 2
    for page, text in drawn(options.files).items():
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
