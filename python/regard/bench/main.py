"""Reads the command's request from standard input, and prints a line of JSON for each cell."""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import datetime, timezone
from typing import Any

import torch

import regard

from .cell import Call, Cell, make_cell
from .peers import PEERS, Unable
from .turns import calls_per_sample, rotated, sample

# Relative to the largest value: a difference beyond rounding means that a peer computed something else.
MOST_DIFFERENCE = {"fp32": 0.01, "fp16": 0.03, "bf16": 0.06}


def difference(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest difference, relative to the largest value. Rows that see no key are NaN in some libraries, 0 here."""

    def of(one: Any, other: Any) -> float:
        one, other = one.float().nan_to_num(), other.float()
        return float((one - other).abs().max() / other.abs().max().clamp_min(1e-30)) if other.numel() else 0.0

    return max(of(found[name], expected[name]) for name in found)


def contestants(cell: Cell, peers: list[str]) -> dict[str, Call]:
    """Regard, and the peers that support the problem and compute the same result."""
    calls = {"regard": cell.call()}
    expected = {name: x.clone() for name, x in calls["regard"]().items()}
    for name in peers:
        try:
            call = PEERS[name](cell)
            found = difference(call(), expected)
        except Unable as why:
            cell.refused[name] = str(why)
            continue
        except Exception as error:  # a library may raise anything for a problem that it does not support
            cell.refused[name] = str(error).strip().partition("\n")[0] or type(error).__name__
            continue
        cell.differences[name] = found
        if found <= MOST_DIFFERENCE[cell.fields["dtype"]]:
            calls[name] = call
        else:
            cell.refused[name] = f"its result differs from Regard's by {found:.2g} of the largest value"
    return calls


def measure(cells: list[Cell], peers: list[str], rounds: int) -> None:
    calls = [contestants(cell, peers) for cell in cells]
    counts = [
        {name: calls_per_sample(call, cell.device) for name, call in of.items()} for of, cell in zip(calls, cells)
    ]
    for cell, of in zip(cells, calls):
        cell.samples = {name: [] for name in of}
    last_report = time.monotonic()
    for turn, names in enumerate(rotated(["regard", *peers], rounds)):
        if time.monotonic() - last_report > 10:
            last_report = time.monotonic()
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        for cell, of, count in zip(cells, calls, counts):
            for name in names:
                if name in of:
                    cell.samples[name].append(sample(of[name], count[name], cell.device))


def line_of(cell: Cell, peers: list[str]) -> dict[str, Any]:
    ms = {name: statistics.median(samples) for name, samples in cell.samples.items()}
    over = {
        name: statistics.median(theirs / ours for theirs, ours in zip(cell.samples[name], cell.samples["regard"]))
        for name in peers
        if name in ms
    }
    plan = json.loads(cell.plan.json)
    stages = plan["stages"]
    return {
        "regard_ms": ms["regard"],
        "samples_ms": cell.samples["regard"],
        "gflops": cell.asked["flops"] / ms["regard"] / 1e6,
        "gbps": cell.bytes / ms["regard"] / 1e6,
        "peers": {name: ms.get(name) for name in peers},
        "over": over,
        "peers_refused": cell.refused,
        "peers_samples_ms": {name: cell.samples[name] for name in over},
        "differences": cell.differences,
        "ceilings": {},
        "target": cell.plan.target,
        "threads": plan.get("threads"),  # on a CPU
        "kernel": " + ".join(stage["kernel"] for stage in stages),
        "source": " + ".join(stage.get("tier", "") for stage in stages),
        "peak_bytes": cell.bytes + cell.plan.workspace_bytes,
    }


def readable(line: dict[str, Any]) -> str:
    """A line for people, on standard error."""
    if "peers" not in line:
        return f"{line['problem']}: refused"
    found = [f"{line['problem']}: regard {line['regard_ms']:.3g} ms"]
    for name, ms in line["peers"].items():
        found.append(f"{name} {ms:.3g} ms ({line['over'][name]:.2f} x)" if ms is not None else f"{name} refused")
    return ", ".join(found)


def report(asked: dict[str, Any]) -> int:
    peers = list(dict.fromkeys(asked["peers"]))
    for name in peers:
        if name not in PEERS:
            raise regard.InvalidError(f"--peers: '{name}' is not a peer; use {', '.join(PEERS)}")
    cells: list[Cell | str] = []
    for one in asked["cells"]:
        try:
            cells.append(make_cell(one, asked["threads"], asked["seed"]))
        except (regard.RefusedError, regard.NoKernelError) as refusal:
            cells.append(str(refusal))
    made = [cell for cell in cells if isinstance(cell, Cell)]
    threads = [json.loads(cell.plan.json)["threads"] for cell in made if cell.device == "cpu"]
    if threads:
        torch.set_num_threads(threads[0])  # the same number for all
    measure(made, peers, asked["rounds"])
    for one, cell in zip(asked["cells"], cells):
        on_gpu = isinstance(cell, Cell) and cell.device != "cpu"
        line = {
            "problem": one["problem"],
            "measure": one["problem"].partition(" ")[0],
            "machine": torch.cuda.get_device_name() if on_gpu else asked["machine"],
            "date": datetime.now(timezone.utc).date().isoformat(),
            "commit": asked["commit"] or None,
        }
        more = line_of(cell, peers) if isinstance(cell, Cell) else {"regard_ms": None, "refused": cell}
        line = {**line, **more}
        print(json.dumps(line))
        print(readable(line), file=sys.stderr)
    return 0 if len(made) == len(cells) else 3


def main() -> int:
    """The exit code, one of the command's."""
    try:
        code = report(json.load(sys.stdin))
        sys.stdout.flush()
        return code
    except regard.RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # PyTorch has no memory for the tensors
        print("regard: " + str(error).partition("\n")[0], file=sys.stderr)
        return 4
    except BrokenPipeError:  # the reader stopped reading, which is not an error
        return 0
    except KeyboardInterrupt:
        return 130
