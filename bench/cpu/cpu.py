#!/usr/bin/env python3
"""Regard against PyTorch's scaled_dot_product_attention on the CPU.

All contestants run in one process, on the same tensors with the same thread count, interleaved round by round; figures
are medians. Writes one line of JSON per cell to bench/results/cpu-<machine>-<date>.jsonl; bench/tables.py makes the
tables. docs/benchmarks.md describes the fields.
"""

import sys

from bench.cpu.cells import all_cells
from bench.cpu.grid import measure
from bench.cpu.run import Run

if __name__ == "__main__":
    this = Run("cpu", __doc__, seconds=5.0)
    sys.exit(this.each(all_cells(this.quick), lambda cell: measure(cell, this)))
