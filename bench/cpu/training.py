#!/usr/bin/env python3
"""One training step of a GPT, the model of examples/torch: with regard.torch, with PyTorch's own attention, and without
attention, which gives the time of the rest of the model.

On the CPU the model has twelve narrow layers; with --device=cuda it has GPT-2's real size. All take turns in one
process. The first losses are compared before anything is timed. Writes a line of JSON per cell to
bench/results/training-<machine>-<date>.jsonl.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.cpu.run import Run
from bench.cpu.timing import Turn, interleaved

TURN = Turn(pause=0.02, ms=500)
# The largest relative difference of the first losses: bf16 rounds the attention output of each layer to eight bits.
MOST_DIFFERENCE = {"fp32": 1e-5, "bf16": 2e-3}


@dataclass(frozen=True)
class Cell:
    dtype: str
    layers: int
    width: int
    heads: int
    s: int
    b: int
    words: int

    @property
    def name(self) -> str:
        return f"{self.dtype} layers={self.layers} width={self.width} s={self.s} b={self.b}"


ON_CPU = [Cell(dtype, 12, 256, 4, s=1024, b=1, words=1024) for dtype in ("fp32", "bf16")]
ON_GPU = [Cell("bf16", 12, 768, 12, s=1024, b=8, words=50257)]
QUICK = [Cell(dtype, 2, 128, 2, s=128, b=2, words=64) for dtype in ("fp32", "bf16")]


def chosen(run: Run) -> list[Cell]:
    import regard

    if run.quick:
        return QUICK
    if run.device == "cuda":
        return ON_GPU
    # On other CPUs PyTorch's bf16 matrix products, most of the step, take ten times as long as those in fp32.
    with_bf16 = regard.info()["target"] in ("cpu-amx", "cpu-avx512bf16")
    return [cell for cell in ON_CPU if cell.dtype == "fp32" or with_bf16]


def attentions() -> dict[str, Callable[..., Any]]:
    """The attention functions by name; they take q, k and v, [b, s, heads, d]."""
    import torch

    import regard.torch

    def sdpa(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    return {
        "regard": lambda q, k, v: regard.torch.attention(q, k, v, causal=True),
        "sdpa": sdpa,
        "none": lambda q, k, v: v,
    }


def measure(cell: Cell, run: Run) -> list[dict[str, Any]]:
    import torch

    import regard
    from examples.torch.transformer import Training

    torch.set_num_threads(run.threads)
    text = torch.randint(cell.words, (cell.b, cell.s + 1), generator=torch.Generator().manual_seed(0)).to(run.device)
    positions = torch.arange(cell.s, device=run.device)

    def steps_of(attention: Callable[..., Any]) -> Callable[[], float]:
        training = Training(cell.words, cell.s, cell.width, cell.heads, cell.layers, device=run.device)

        def step() -> float:
            with torch.autocast(run.device, torch.bfloat16, enabled=cell.dtype == "bf16"):
                hidden = training.model(text[:, :-1], positions, attention)
                loss = training.model.loss(hidden, text[:, 1:])
            return training.step(loss)  # a number, so the GPU has finished

        return step

    steps = {name: steps_of(attention) for name, attention in attentions().items()}
    try:
        losses = {name: step() for name, step in steps.items()}
    except regard.RefusedError as error:
        raise SystemExit(f"{cell.name}: {error}") from None
    difference = abs(losses["regard"] / losses["sdpa"] - 1)
    if not difference <= MOST_DIFFERENCE[cell.dtype]:
        raise SystemExit(f"{cell.name}: the first loss with regard differs from the one with sdpa by {difference:.1e}")
    times = interleaved(steps, run.threads, run.options.seconds, run.rounds, turn=TURN)
    ms = {name: round(times.median(name), 3) for name in steps}
    faster = round(times.ratio("sdpa", "regard"), 3)
    print("  " + ", ".join(f"{name} {value} ms" for name, value in ms.items()) + f", {faster} times sdpa", flush=True)
    line = {
        "cell": cell.name,
        "threads": run.threads,
        "ms": ms,
        "over_sdpa": faster,
        "loss_difference": difference,
        "rounds": times.rounds,
        "samples_ms": {name: times.rounded(name) for name in steps},
        "others": round(times.others, 3),
    }
    return [line]


if __name__ == "__main__":
    this = Run("training", __doc__, seconds=40, on_gpu=True)
    sys.exit(this.each(chosen(this), lambda cell: measure(cell, this)))
