"""One run of a benchmark program: its options, its environment, and the results file that it writes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, TypeVar

from bench.shared import machine, results
from bench.shared.progress import counted

Named = TypeVar("Named")


class Run:
    """Parses the command line and sets the environment: create it before importing NumPy, PyTorch or Regard."""

    def __init__(self, series: str, description: str, seconds: float, on_gpu: bool = False) -> None:
        """seconds: the default of --seconds, how long a cell is measured; on_gpu: --device=cuda is supported."""
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run at all?")
        parser.add_argument(
            "--cells", default="", metavar="WORDS", help="only cells whose name has all words: 'fwd bf16'"
        )
        parser.add_argument("--seconds", type=float, default=seconds, help="time for a cell; by default %(default)s")
        parser.add_argument("--rounds", type=int, default=0, help="rounds per cell instead of a time")
        parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
        parser.add_argument("--out", type=Path, help="the file to write; by default by series, machine and date")
        parser.add_argument("--list", action="store_true", help="print the cells' names")
        parser.set_defaults(device="cpu")
        if on_gpu:
            parser.add_argument("--device", choices=("cpu", "cuda"), help="by default %(default)s")
        self.options = parser.parse_args()
        self.threads: int = self.options.threads
        self.quick: bool = self.options.quick
        self.device: str = self.options.device
        self.series = series
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(self.threads)
        # OpenBLAS's idle threads spin for 100 ms by default: on two cores, others then take 1.2 times as long.
        os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"
        name, self._slug = machine.cpu_model(), machine.cpu_slug(self.threads)
        if self.device == "cuda":
            import torch

            if not torch.cuda.is_available():
                parser.error(
                    "--device=cuda needs an NVIDIA or AMD GPU and a PyTorch that sees it; without them, leave it out"
                )
            name = torch.cuda.get_device_name()
            self._slug = machine.slug(name)
        self._origin = {"series": series, **machine.origin(name)}

    @property
    def rounds(self) -> int:
        return self.options.rounds or (2 if self.quick else 0)

    @property
    def file(self) -> Path:
        kind = "quick-" * self.quick + self.series
        name = f"{kind}-{self._slug}-{self._origin['date']}.jsonl"
        return self.options.out or results.BENCH / name

    def each(self, items: Sequence[Named], measure: Callable[[Named], list[dict[str, Any]]]) -> int:
        """Measures every selected item (each has a name) and writes the resulting lines; returns the exit status.

        A run of all items rewrites the file; a selection by --cells replaces only the lines of its items.
        """
        words = self.options.cells.split()
        chosen = [item for item in items if all(word in item.name.split() for word in words)]
        if self.options.list:
            print("\n".join(item.name for item in chosen))
            return 0
        if not chosen:
            print(f"no cell has all of the words '{self.options.cells}'; --list prints them", file=sys.stderr)
            return 2
        file = self.file
        file.parent.mkdir(parents=True, exist_ok=True)
        found: dict[str, list[dict[str, Any]]] = {}
        if words and file.exists():
            for line in map(json.loads, file.read_text().splitlines()):
                found.setdefault(line.get("item", line["cell"]), []).append(line)
        print(f"{self._origin['machine']}, {self.threads} threads, {len(chosen)} cells -> {file}", flush=True)
        for item in counted(chosen, lambda item: item.name):
            found[item.name] = [{"item": item.name, **line, **self._origin} for line in measure(item)]
            lines = [json.dumps(line) for name in (x.name for x in items) for line in found.get(name, [])]
            file.write_text("\n".join(lines) + "\n")
        return 0
