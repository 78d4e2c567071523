#!/usr/bin/env python3
"""Compares the cost model with measurements of random problems: forward, backward and decode in equal numbers.

`regard tune` measures the candidates of each problem alternately, with a cold cache, after it has compiled all kernels.
The regret is the time of the cost model's choice over that of the fastest candidate, and 1 where none is faster by more
than the noise; one above 1 is measured again at the end, and the smaller counts, as other work on the machine can slow
a contestant in every round. Writes a line of JSON per problem to bench/results/regret-<machine>-<date>.jsonl, and
prints the table of `python -m bench.tables`. A run that --seconds or Ctrl-C ended is continued by the same command:
problems that this commit has in the file are not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.shared import machine, results
from bench.shared.markdown import Line, geometric_mean, paragraph, table

COMMAND = os.environ.get("REGARD_BIN", str(machine.ROOT / "build/release/regard"))
KINDS = ("forward", "backward", "decode")
# Seconds by the cost model: shorter calls are mostly overhead, and longer ones take too long to measure.
SHORTEST, LONGEST_ON_CPU, LONGEST_ON_GPU = 20e-6, 20e-3, 5e-3
MOST_BYTES = 1 << 30  # of the tensors, which are drawn on the CPU
MEASURED = 10  # `regard tune` leaves out candidates above this multiple of the lowest estimate
OF_FIRST = 0.8  # of the time; the rest is for measuring again
VARIANT = re.compile(r" (splits|threads)=\d+")


def random_problem(kind: str, generator: random.Random, on_gpu: bool) -> str:
    """Lengths are evenly spread over their logarithm; two of three are not powers of two."""

    def length(least: int, most: int) -> int:
        exponent = generator.uniform(least.bit_length() - 1, most.bit_length() - 1)
        return 2 ** round(exponent) if generator.random() < 1 / 3 else round(2**exponent)

    dtype = generator.choice(["bf16", "bf16", "fp16"] if on_gpu else ["bf16", "bf16", "fp16", "fp32"])
    d = generator.choice([32, 64, 64, 80, 96, 128, 128, 128, 192, 256])
    hk, group = generator.choice([1, 2, 4, 8, 16]), generator.choice([1, 1, 2, 4, 8])
    words = [f"b={generator.choice([1, 1, 2, 4, 8])}", f"hq={hk * group}", f"hk={hk}"]
    if kind == "decode":
        words += [f"sq={generator.choice([1, 1, 1, 2, 4, 8])}", f"sk={length(256, 131072 if on_gpu else 32768)}"]
        mask = generator.choice(["none", "none", "causal"])
    else:
        sq = length(64, 8192 if on_gpu else 2048)
        words += [f"sq={sq}", f"sk={sq if generator.random() < 2 / 3 else length(64, 16384 if on_gpu else 4096)}"]
        mask = generator.choice(["none", "causal", "causal", "window:256,0"])
    return f"{'bwd' if kind == 'backward' else 'fwd'} {dtype} {' '.join(words)} d={d} mask={mask}"


def explained(problem: str, where: list[str]) -> dict[str, Any]:
    done = subprocess.run([COMMAND, "explain", *problem.split(), *where, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{problem}: {done.stderr}")
    explanation: dict[str, Any] = json.loads(done.stdout)
    return explanation


def has_choice(explanation: dict[str, Any]) -> bool:
    """Whether more than one candidate is worth measuring."""
    candidates = [each for each in explanation["verdicts"] if each["accepted"]] + explanation.get("variants", [])
    estimates: list[float] = [each["seconds"] for each in candidates]
    return sum(seconds <= MEASURED * min(estimates) for seconds in estimates) > 1


def bytes_of(problem: str) -> int:
    """About as many as its tensors have."""
    sizes = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", problem)}
    rows = sizes["b"] * (sizes["hq"] * sizes["sq"] + sizes["hk"] * sizes["sk"])
    return 2 * rows * sizes["d"] * (4 if " fp32 " in problem else 2) * (2 if problem.startswith("bwd") else 1)


def problems(kind: str, seed: int, where: list[str], on_gpu: bool) -> Iterator[tuple[str, bool]]:
    """Of different buckets, with an expected time that can be measured; and whether they have a choice. No end."""
    generator = random.Random(f"{kind} {seed}")
    longest = LONGEST_ON_GPU if on_gpu else LONGEST_ON_CPU
    buckets: set[str] = set()
    with ThreadPoolExecutor() as pool:
        while True:
            drawn = [random_problem(kind, generator, on_gpu) for _ in range(32)]
            small = [problem for problem in drawn if bytes_of(problem) <= MOST_BYTES]
            for explanation in pool.map(explained, small, itertools.repeat(where)):
                seconds = explanation.get("plan", {}).get("cost_seconds", 0)
                if SHORTEST <= seconds <= longest and explanation["bucket"] not in buckets:
                    buckets.add(explanation["bucket"])
                    yield explanation["problem"], has_choice(explanation)


def line_of(kind: str, record: dict[str, Any]) -> Line:
    """The result of a tuning record."""
    times = record["times"]
    return {
        "series": "regret",
        "cell": record["problem"],
        "kind": kind,
        "problem": record["problem"],
        "target": record["target"],
        "threads": record["threads"],
        "regret": round(times[record["by_cost"]] / times[record["candidate"]], 4),
        "candidate": record["candidate"],
        "by_cost": record["by_cost"],
        "times_ms": {name: round(ms, 5) for name, ms in times.items()},
    }


def alone_line(kind: str, problem: str) -> Line:
    """A problem with one candidate, which is not measured."""
    return {"series": "regret", "cell": problem, "kind": kind, "problem": problem, "regret": 1.0, "times_ms": {}}


def smaller(first: Line, again: Line) -> Line:
    """Of two measurements of a problem the one with the smaller regret: what does not recur was noise."""
    line = again if again["regret"] < first["regret"] else first
    return {**line, "measured_again": True}


def tune(problems: list[str], seconds: float, where: list[str]) -> list[dict[str, Any]]:
    """The records of those that could be measured in this time; what cannot, `regard tune` prints."""
    with tempfile.TemporaryDirectory() as folder:
        asked, out = Path(folder, "problems"), Path(folder, "tuning")
        asked.write_text("".join(problem + "\n" for problem in problems))
        words = ["tune", f"--problems={asked}", f"--out={out}", f"--seconds={max(round(seconds), 0)}", *where]
        with subprocess.Popen([COMMAND, *words], stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                with contextlib.suppress(KeyboardInterrupt):  # it ends itself, and keeps what it has measured
                    process.wait()
        return results.read(out) if out.exists() else []


Tune = Callable[[list[str], float], list[dict[str, Any]]]


class Run:
    """The lines of a file, which is written after each change."""

    def __init__(self, file: Path, origin: Line, tune: Tune) -> None:
        self.file, self.origin, self.tune = file, origin, tune
        earlier = results.read(file) if file.exists() else []
        self.lines = {line["problem"]: line for line in earlier if line["commit"] == origin["commit"]}

    def put(self, lines: list[Line]) -> None:
        self.lines |= {line["problem"]: {**line, **self.origin} for line in lines}
        self.file.write_text("".join(json.dumps(line) + "\n" for line in self.lines.values()))

    def measure_all(self, drawn: dict[str, list[tuple[str, bool]]], seconds: float) -> bool:
        """The problems of each kind, the kinds in turn; False if some could not be measured in this time."""
        kinds = {problem: kind for kind, of_kind in drawn.items() for problem, _ in of_kind}
        rest = [row for row in itertools.chain(*zip(*drawn.values(), strict=True)) if row[0] not in self.lines]
        self.put([alone_line(kinds[problem], problem) for problem, choice in rest if not choice])
        asked = [problem for problem, choice in rest if choice]
        records = self.tune(asked, seconds) if asked else []
        self.put([line_of(kinds[record["problem"]], record) for record in records])
        return len(records) == len(asked)

    def measure_again(self, seconds: float) -> bool:
        """Those with a regret above 1; False if some could not be measured in this time."""
        lines = self.lines.items()
        above = {problem: line for problem, line in lines if line["regret"] > 1 and "measured_again" not in line}
        records = {each["problem"]: each for each in self.tune([*above], seconds)} if above else {}
        self.put([smaller(above[problem], line_of(above[problem]["kind"], each)) for problem, each in records.items()])
        return len(records) == len(above)


def summary(lines: list[Line]) -> list[str]:
    """The table of one machine."""
    rows = []
    for kind in KINDS:
        chosen = sorted(line["regret"] for line in lines if line["kind"] == kind and len(line["times_ms"]) > 1)
        of_kind = sum(line["kind"] == kind for line in lines)
        if not chosen:
            rows += [[kind, "0", str(of_kind), *5 * ["–"]]] * (of_kind > 0)
            continue
        variants = sum(bool(VARIANT.search(line.get("candidate", ""))) for line in lines if line["kind"] == kind)
        figures = (
            chosen[len(chosen) // 2],
            geometric_mean(chosen),
            chosen[min(len(chosen) * 9 // 10, len(chosen) - 1)],
            chosen[-1],
        )
        shown = [f"{figure:.2f}" for figure in figures]
        rows.append([kind, str(len(chosen)), str(of_kind - len(chosen)), *shown, str(variants)])
    first = next((line for line in lines if "target" in line), None)
    if first is None:
        return ["No problem has a choice.", ""]
    where = first["target"] + (f", {first['threads']} threads" if first["threads"] else "")
    text = (
        f"{first['machine']}, {where}, {first['date']}, commit {first['commit']}. Random problems; the time of the "
        "cost model's choice over that of the fastest candidate, 1.00 where none is faster by more than the noise."
    )
    head = ["", "problems", "with one candidate, not counted", "median", "geometric mean", "90th percentile", "worst"]
    head.append("faster with other parts or threads")
    return [*paragraph(text), *table(head, rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="problems of each pass; by default 200, on a GPU 60")
    parser.add_argument("--seconds", type=float, help="for all of them; by default two for each problem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", help="by default the best of this CPU; cuda or hip: the GPU")
    parser.add_argument("--threads", type=int, default=0, help="on a CPU; by default all")
    parser.add_argument("--out", type=Path, help="the file to write; by default by machine and date")
    options = parser.parse_args()
    on_gpu = options.target in ("cuda", "hip") or (options.target or "").startswith(("sm_", "gfx"))
    count = options.count or (60 if on_gpu else 200)
    where = [f"--threads={options.threads}"] + [f"--target={options.target}"] * bool(options.target)
    if on_gpu:
        info = json.loads(subprocess.run([COMMAND, "info", "--json"], capture_output=True, text=True).stdout)
        if not info["gpus"]:
            parser.error(f"--target={options.target} needs a GPU: {info['gpus_missing']}")
        # By its name, as explaining for a kind of GPU takes the time to start its driver.
        best = next(
            row["name"] for row in info["targets"] if row["kind"] == info["gpus"][0]["kind"] and row["runs_here"]
        )
        where[1:] = [f"--target={best if options.target in ('cuda', 'hip') else options.target}"]
        name = info["gpus"][0]["name"]
        slug = machine.slug(name)
    else:
        name, slug = machine.cpu_model(), machine.cpu_slug(options.threads or len(os.sched_getaffinity(0)))
    if options.target and not on_gpu:
        slug += f"-{options.target}"
    origin = machine.origin(name)
    file = options.out or results.BENCH / f"regret-{slug}-{origin['date']}.jsonl"
    seconds = options.seconds or 2 * count * len(KINDS)
    end = time.monotonic() + seconds
    run = Run(file, origin, lambda asked, allowed: tune(asked, allowed, where))
    drawn = {kind: list(itertools.islice(problems(kind, options.seed, where, on_gpu), count)) for kind in KINDS}
    measured = run.measure_all(drawn, OF_FIRST * (end - time.monotonic()))
    if not run.measure_again(end - time.monotonic()) or not measured:
        print("not all were measured; the same command goes on from here", file=sys.stderr)
    print("\n".join(summary([*run.lines.values()])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
