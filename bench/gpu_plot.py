#!/usr/bin/env python3
"""Draws docs/gpu.svg from the newest result of bench/gpu.py, rates over sequence lengths. Needs matplotlib."""

from __future__ import annotations

import sys

import matplotlib
import matplotlib.pyplot as plt

from gpu_tables import NAMES
from table import ROOT, newest, read


def main() -> int:
    matplotlib.use("svg")
    files = newest("gpu")
    if not files:
        print("no results: run ./dev gpu-bench on a machine with an NVIDIA GPU", file=sys.stderr)
        return 2
    lines = [line for line in read(files[-1]) if line["cell"].startswith("grid ")]
    matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same picture for the same figures
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), sharex=True, sharey=True, layout="constrained")
    for axis, (d, mask) in zip(axes.flat, [(d, mask) for mask in ("full", "causal") for d in (64, 128, 256)]):
        chosen = [line for line in lines if line["cell"].startswith(f"grid d={d} {mask} ")]
        lengths = [int(line["cell"].rpartition("=")[2]) for line in chosen]
        for name, label in NAMES.items():
            rates = [line["tflops"].get(name) for line in chosen]
            axis.plot(lengths, rates, marker="o", markersize=3, label=label, linewidth=2 if name == "regard" else 1)
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(s) for s in lengths])
        axis.set_title(f"d = {d}, {mask}")
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize="small")
    figure.supxlabel("sequence length")
    figure.supylabel("TFLOP/s")
    origin = lines[0]
    figure.suptitle(f"Forward, bf16, {origin['machine']}, {origin['date']}, commit {origin['commit']}")
    figure.savefig(ROOT / "docs/gpu.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
