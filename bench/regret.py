#!/usr/bin/env python3
"""Compares the cost model with measurements of random problems: forward, backward and decode in equal numbers.

`regard tune` measures the candidates of each problem alternately, with a cold cache. The regret is the time of the cost
model's choice over that of the fastest candidate, and 1 where none is faster by more than the noise; one above 1 is
measured again at the end, and the smaller counts, as other work on the machine can slow a contestant in every round.
Writes a line of JSON per problem to bench/results/regret-<machine>-<date>.jsonl, after each of them, and prints the
table of `python -m bench.tables`. A run that --seconds or Ctrl-C ended is continued by the same command: problems that
this commit has in the file are not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.shared import machine, results
from bench.shared.markdown import Line, geometric_mean, paragraph, table

COMMAND = os.environ.get("REGARD_BIN", str(machine.ROOT / "build/release/regard"))
KINDS = ("forward", "backward", "decode")
# By the cost model: shorter calls are mostly overhead, and longer ones take too long to measure.
SHORTEST, LONGEST = 20e-6, 50e-3
MEASURED = 10  # `regard tune` leaves out candidates above this multiple of the lowest estimate


def random_problem(kind: str, generator: random.Random, on_gpu: bool) -> str:
    """Lengths are evenly spread over their logarithm; two of three are no powers of two."""

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
    estimates: list[float] = [each["seconds"] for each in explanation["verdicts"] if each["accepted"]]
    return sum(seconds <= MEASURED * min(estimates) for seconds in estimates) > 1


def problems(kind: str, seed: int, where: list[str], on_gpu: bool) -> Iterator[tuple[str, bool]]:
    """Of different buckets, with an expected time that can be measured; and whether they have a choice. No end."""
    generator = random.Random(f"{kind} {seed}")
    buckets: set[str] = set()
    while True:
        problem = random_problem(kind, generator, on_gpu)
        explanation = explained(problem, where)
        seconds = explanation.get("plan", {}).get("cost_seconds", 0)
        if SHORTEST <= seconds <= LONGEST and explanation["bucket"] not in buckets:
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


def smaller(first: Line, again: Line | None) -> Line:
    """Of two measurements of a problem the one with the smaller regret: what does not recur was noise."""
    line = again if again is not None and again["regret"] < first["regret"] else first
    return {**line, "measured_again": True}


def measure(kind: str, problem: str, seconds: int, where: list[str]) -> Line | None:
    """None if no kernel runs here, and `regard tune` has printed why."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "tuning")
        words = [problem, "--out", str(out), f"--seconds={seconds}", *where]
        done = subprocess.run([COMMAND, "tune", *words], stdout=subprocess.DEVNULL)
        if done.returncode == 3:
            return None
        if done.returncode != 0:
            raise SystemExit(done.returncode)
        return line_of(kind, json.loads(out.read_text()))


class Run:
    """The lines of a file, which is written after each change."""

    def __init__(self, file: Path, origin: Line, seconds_each: int, end: float, where: list[str]) -> None:
        self.file, self.origin, self.seconds_each, self.end, self.where = file, origin, seconds_each, end, where
        earlier = results.read(file) if file.exists() else []
        self.lines = {line["problem"]: line for line in earlier if line["commit"] == origin["commit"]}

    def time_is_up(self) -> bool:
        return time.monotonic() >= self.end

    def put(self, line: Line) -> None:
        self.lines[line["problem"]] = {**line, **self.origin}
        self.file.write_text("".join(json.dumps(line) + "\n" for line in self.lines.values()))

    def measure_all(self, drawn: dict[str, Iterator[tuple[str, bool]]], count: int) -> bool:
        """`count` problems of each kind, the kinds in turn; False if the time is up before that."""
        for i in range(count):
            for kind, of_kind in drawn.items():
                if self.time_is_up():
                    return False
                problem, choice = next(of_kind)
                if problem in self.lines:
                    continue
                print(f"[{i + 1}/{count}] {problem}", file=sys.stderr, flush=True)
                line = measure(kind, problem, self.seconds_each, self.where) if choice else alone_line(kind, problem)
                if line is not None:
                    self.put(line)
        return True

    def measure_again(self) -> bool:
        """Those with a regret above 1; False if the time is up before that."""
        for line in [line for line in self.lines.values() if line["regret"] > 1 and "measured_again" not in line]:
            if self.time_is_up():
                return False
            print(f"again: {line['problem']}", file=sys.stderr, flush=True)
            self.put(smaller(line, measure(line["kind"], line["problem"], self.seconds_each, self.where)))
        return True


def summary(lines: list[Line]) -> list[str]:
    """The table of one machine."""
    rows = []
    for kind in KINDS:
        chosen = sorted(line["regret"] for line in lines if line["kind"] == kind and len(line["times_ms"]) > 1)
        of_kind = sum(line["kind"] == kind for line in lines)
        if not chosen:
            rows += [[kind, "0", str(of_kind), *4 * ["–"]]] * (of_kind > 0)
            continue
        figures = (
            chosen[len(chosen) // 2],
            geometric_mean(chosen),
            chosen[min(len(chosen) * 9 // 10, len(chosen) - 1)],
            chosen[-1],
        )
        rows.append([kind, str(len(chosen)), str(of_kind - len(chosen)), *(f"{figure:.2f}" for figure in figures)])
    first = next((line for line in lines if "target" in line), None)
    if first is None:
        return ["No problem has a choice.", ""]
    where = first["target"] + (f", {first['threads']} threads" if first["threads"] else "")
    text = (
        f"{first['machine']}, {where}, {first['date']}, commit {first['commit']}. Random problems; the time of the "
        "cost model's choice over that of the fastest candidate, 1.00 where none is faster by more than the noise."
    )
    head = ["", "problems", "with one candidate, not counted", "median", "geometric mean", "90th percentile", "worst"]
    return [*paragraph(text), *table(head, rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="problems of each pass; by default 200, on a GPU 60")
    parser.add_argument("--each", type=int, default=2, help="seconds for a problem; by default %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="for all of them; by default as long as it takes"
    )
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
        name = info["gpus"][0]["name"]
        slug = machine.slug(name)
    else:
        name, slug = machine.cpu_model(), machine.cpu_slug(options.threads or len(os.sched_getaffinity(0)))
    if options.target and not on_gpu:
        slug += f"-{options.target}"
    origin = machine.origin(name)
    file = options.out or results.BENCH / f"regret-{slug}-{origin['date']}.jsonl"
    run = Run(file, origin, options.each, time.monotonic() + options.seconds, where)
    drawn = {kind: problems(kind, options.seed, where, on_gpu) for kind in KINDS}
    try:
        complete = run.measure_all(drawn, count) and run.measure_again()
    except KeyboardInterrupt:
        complete = False
    if not complete:
        print("ended early; the same command goes on from here", file=sys.stderr)
    print("\n".join(summary([*run.lines.values()])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
