#!/usr/bin/env python3
"""The grid of cpu.py, with fewer heads and with both sides limited to AVX2, as on a machine without AVX-512.

Runs in its own process, because the libraries read these settings only once. Writes one line of JSON per cell to
bench/results/avx2-<machine>-<date>.jsonl.
"""

import os
import sys

from bench.cpu.cells import all_cells
from bench.cpu.grid import measure
from bench.cpu.run import Run

HELD = {
    "REGARD_CPU_TARGET": "cpu-avx2",
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own kernels
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",  # the matrix products that those call
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",  # the ceiling
}
HEADS = {512: (2, 8), 2048: (1, 4)}

if __name__ == "__main__":
    this = Run("avx2", __doc__, seconds=1.0)
    os.environ.update(HELD)
    sys.exit(this.each(all_cells(this.quick, HEADS), lambda cell: measure(cell, this)))
