#!/usr/bin/env python3
"""Functions of the score and the mask on an NVIDIA GPU, compared with plain attention and with FlexAttention.

bf16, 16 heads. The calls of a cell take turns with a cold L2 cache: `regard`; `bits`, the same with the mask's bits
given, if the plan of `regard` has a stage that writes them; `plain`, attention without a function; and `flex`,
FlexAttention, compiled for the cell by torch.compile in the mode `--flex`, with a block mask made beforehand.
Results are compared before anything is timed. Writes a line of JSON per cell to
bench/results/flex-<GPU>-<date>.jsonl: `tiles`, the share of tiles of 128 x 128 in which a row sees a key;
`over_plain` and `over_plain_with_bits`, the rate in these tiles over that of `plain`; `over_flex`, the time of
FlexAttention over ours. Most of the run's time is FlexAttention's tuning: `--seconds` ends it early, the longest rows
first.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from bench.gpu.backward import MOST_DIFFERENCE, difference
from bench.gpu.contestants import TARGET, Call, workspace_of
from bench.gpu.lines import write_lines
from bench.gpu.timing import interleaved
from bench.shared.masks import ALIBI, masks

HEADS, WINDOW, TILE = 16, 1024, 128
DEVICE = "cuda"
FUNCTIONS = {**masks(WINDOW), "alibi": ALIBI}
SETTLING = (50, 100)  # milliseconds: most calls are too short to reach the power limit


@dataclass(frozen=True)
class Cell:
    function: str
    pass_: str
    d: int
    s: int

    @property
    def name(self) -> str:
        return f"{self.function} {self.pass_} d={self.d} s={self.s}"

    @property
    def problem(self) -> str:
        """Without its pass and without the function."""
        return f"bf16 b=1 h={HEADS} s={self.s} d={self.d}"


def every_cell() -> list[Cell]:
    return [
        Cell(function, pass_, d, s)
        for s in (8192, 2048, 512)
        for d in (128, 64)
        for pass_ in ("fwd", "bwd")
        for function in FUNCTIONS
    ]


@dataclass(frozen=True)
class Case:
    """A problem without its pass, and the tensors that its words name."""

    problem: str
    given: dict[str, Any]

    def planned(self, pass_: str, lse: bool = False) -> regard.Plan:
        return regard.plan(f"{pass_} {self.problem}{' lse' if lse else ''}", target=TARGET)


@dataclass
class Inputs:
    q: Any
    k: Any
    v: Any
    grad_o: Any

    @staticmethod
    def of(cell: Cell) -> Inputs:
        torch.manual_seed(0)
        return Inputs(*(torch.randn(1, cell.s, HEADS, cell.d, device=DEVICE).to(torch.bfloat16) for _ in range(4)))


def captured(cell: Cell) -> list[Any]:
    return [x.to(DEVICE) for x in FUNCTIONS[cell.function].captured(HEADS, cell.s).values()]


def visible(cell: Cell) -> Any:
    """Which keys each row sees, bool [s, s]; None: all."""
    if (mask := FUNCTIONS[cell.function].mask) is None:
        return None
    places = torch.arange(cell.s, device=DEVICE)
    batch = torch.zeros((), dtype=torch.int64, device=DEVICE)
    return mask(batch, batch, places[:, None], places[None, :], *captured(cell))


def packed(seen: Any) -> Any:
    """The tensor of the word `bits`, uint32 [1, 1, s, s / 32]."""
    words = (seen.view(len(seen), -1, 32).long() << torch.arange(32, device=seen.device)).sum(-1)
    return torch.where(words < 1 << 31, words, words - (1 << 32)).to(torch.int32).view(torch.uint32)[None, None]


def share_of_tiles(seen: Any) -> float:
    """The share of tiles in which a row sees a key."""
    if seen is None:
        return 1.0
    return float(seen.view(len(seen) // TILE, TILE, -1, TILE).any(3).any(1).float().mean())


def cases(cell: Cell, seen: Any) -> dict[str, Case]:
    plain = cell.problem
    function = Case(
        f"{plain} {FUNCTIONS[cell.function].words}", {f"captured_{i}": x for i, x in enumerate(captured(cell))}
    )
    found = {"regard": function, "plain": Case(plain, {})}
    planned = json.loads(function.planned("fwd").json)["problem"].removeprefix("fwd ")
    if "bits" in planned.split():
        found["bits"] = Case(planned, {"bits": packed(seen)})
    return found


def of_regard(cell: Cell, case: Case, of: Inputs) -> Call:
    """The call, which returns O or the gradients."""
    stream = torch.cuda.current_stream().cuda_stream
    backward = cell.pass_ == "bwd"
    o = torch.empty_like(of.q)
    results = {"o": o}
    if backward:
        results["lse"] = torch.empty(1, HEADS, cell.s, device=DEVICE)
    forward = case.planned("fwd", lse=backward)
    given = {"q": of.q, "k": of.k, "v": of.v, **case.given, **results, "workspace": workspace_of(forward)}
    if not backward:
        return lambda: (forward.run(**given, stream=stream), (o,))[1]
    forward.run(**given, stream=stream)
    plan = case.planned("bwd")
    gradients = {f"grad_{name}": torch.empty_like(of.q) for name in "qkv"}
    given |= {"grad_o": of.grad_o, **gradients, "workspace": workspace_of(plan)}
    return lambda: (plan.run(**given, stream=stream), tuple(gradients.values()))[1]


def of_flex(cell: Cell, of: Inputs, mode: str) -> Call:
    """The same for FlexAttention, on tensors in its own layout."""
    import torch._functorch.config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._functorch.config.donated_buffer = False  # backward is run again and again
    torch._dynamo.reset()  # after eight functions it would no longer compile
    function, tensors = FUNCTIONS[cell.function], captured(cell)
    mask = score = None
    if function.mask is not None:
        mask = create_block_mask(
            lambda b, h, q, kv: function.mask(b, h, q, kv, *tensors), None, None, cell.s, cell.s, device=DEVICE
        )
    if function.score is not None:
        score = lambda s, b, h, q, kv: function.score(s, b, h, q, kv, *tensors)  # noqa: E731
    attention = torch.compile(flex_attention, mode=mode, dynamic=False)
    leaves = [x.transpose(1, 2).contiguous() for x in (of.q, of.k, of.v)]
    call = functools.partial(attention, *leaves, score_mod=score, block_mask=mask)
    if cell.pass_ == "fwd":
        return lambda: (call().transpose(1, 2),)
    for leaf in leaves:
        leaf.requires_grad_()
    o, grad_o = call(), of.grad_o.transpose(1, 2).contiguous()
    return lambda: [x.transpose(1, 2) for x in torch.autograd.grad(o, leaves, grad_o, retain_graph=True)]


def measure(cell: Cell, flex: str, milliseconds: float) -> dict[str, Any]:
    of, seen = Inputs.of(cell), visible(cell)
    ours = cases(cell, seen)
    tiles = share_of_tiles(seen)
    calls = {name: of_regard(cell, case, of) for name, case in ours.items()}
    refused = {}
    if flex != "none":
        try:
            calls["flex"] = of_flex(cell, of, flex)
            calls["flex"]()
        except Exception as error:  # of dynamo, inductor and Triton: types of their own
            refused["flex"] = f"{type(error).__name__}: {str(error)[:200]}"
            calls.pop("flex", None)
    differences = {}
    reference = "flex" if "flex" in calls else "regard"
    for name in calls.keys() - {reference, "plain"}:
        expected = [x.clone() for x in calls[reference]()]
        differences[name] = difference(calls[name](), expected)
        if not differences[name] <= MOST_DIFFERENCE:
            raise SystemExit(f"{cell.name}: {name} differs from {reference} by {differences[name]}")
    times = interleaved(calls, milliseconds, settling=SETTLING)
    ms = {name: statistics.median(samples) for name, samples in times.items()}
    line = {
        "cell": cell.name,
        "problem": f"{cell.pass_} {ours['regard'].problem}",
        "ms": {name: round(value, 5) for name, value in ms.items()},
        "samples_ms": {name: [round(value, 5) for value in samples] for name, samples in times.items()},
        "tiles": round(tiles, 4),
        "over_plain": round(tiles * ms["plain"] / ms["regard"], 3),
        "kernels": {
            name: [stage["kernel"].partition(" |")[0] for stage in json.loads(case.planned(cell.pass_).json)["stages"]]
            for name, case in ours.items()
        },
        "differences": differences,
        "refused": refused,
    }
    if "bits" in ms:
        line["over_plain_with_bits"] = round(tiles * ms["plain"] / ms["bits"], 3)
    if "flex" in ms:
        line["over_flex"] = round(ms["flex"] / ms["regard"], 3)
    print(f"    {line['ms']} ms; {line['kernels']['regard'][-1]}", flush=True)
    return line


def prepare(cell: Cell) -> None:
    """Compiles the kernels of a cell."""
    for case in cases(cell, visible(cell)).values():
        for pass_ in ("fwd", "bwd") if cell.pass_ == "bwd" else ("fwd",):
            case.planned(pass_, lse=cell.pass_ == "bwd" and pass_ == "fwd").prepare()


def geometric_means(lines: list[dict[str, Any]]) -> list[str]:
    """The ratios of all cells of a pass and a length."""
    found = []
    for key in ("over_flex", "over_plain", "over_plain_with_bits"):
        of_cells: dict[str, list[float]] = {}
        for line in lines:
            if key in line:
                _, pass_, _, s = line["cell"].split()
                of_cells.setdefault(f"{pass_} {s}", []).append(line[key])
        found += [
            f"{key.replace('_', ' ')}, {name}: least {min(ratios):.3f}, "
            f"geometric mean {statistics.geometric_mean(ratios):.3f} of {len(ratios)} cells"
            for name, ratios in of_cells.items()
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cells", default="", metavar="WORDS", help="only cells whose name has all words: 'fwd d=128 natten'"
    )
    parser.add_argument(
        "--flex",
        default="max-autotune-no-cudagraphs",
        metavar="MODE",
        help="torch.compile's mode for FlexAttention; none: it takes no part",
    )
    parser.add_argument("--milliseconds", type=float, default=30, help="that count of each call in each round")
    parser.add_argument("--seconds", type=float, default=240, help="no cell begins after that time")
    parser.add_argument("--out", type=Path, help="the file to write; by default by GPU and date")
    options = parser.parse_args()
    chosen = [cell for cell in every_cell() if all(word in cell.name.split() for word in options.cells.split())]
    if not chosen:
        print(f"no cell has all of the words '{options.cells}'", file=sys.stderr)
        return 2
    end = time.monotonic() + options.seconds
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, chosen))
    how = options.flex, options.milliseconds
    lines = write_lines(
        "flex",
        [(cell.name, functools.partial(measure, cell, *how)) for cell in chosen],
        options.out,
        lambda: time.monotonic() < end,
    )
    print("\n".join(geometric_means(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
