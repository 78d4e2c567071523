#!/usr/bin/env python3
"""Compares the cost model with measurements of random problems: forward, backward and decode in equal numbers.

`regard tune` measures the candidates of each problem alternately, with a cold cache. The regret is the time of the cost
model's choice over that of the fastest candidate, and 1 where none is faster by more than the noise; one above 1 is
measured twice, and the smaller counts, as other work on the machine can slow a contestant in every round. Writes a line
of JSON per problem to bench/results/regret-<machine>-<date>.jsonl, and prints the table of `python -m bench.tables`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
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
    estimates = [each["seconds"] for each in explanation["verdicts"] if each["accepted"]]
    return sum(seconds <= MEASURED * min(estimates) for seconds in estimates) > 1


def problems(kind: str, count: int, seed: int, where: list[str], on_gpu: bool) -> Iterator[tuple[str, bool]]:
    """Of different buckets, with an expected time that can be measured; and whether they have a choice."""
    generator = random.Random(f"{kind} {seed}")
    buckets: set[str] = set()
    while len(buckets) < count:
        problem = random_problem(kind, generator, on_gpu)
        explanation = explained(problem, where)
        seconds = explanation.get("plan", {}).get("cost_seconds", 0)
        if SHORTEST <= seconds <= LONGEST and explanation["bucket"] not in buckets:
            buckets.add(explanation["bucket"])
            yield problem, has_choice(explanation)


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


def confirmed(first: list[Line], second: list[Line]) -> list[Line]:
    """Of two measurements of a problem the one with the smaller regret: what does not recur was noise."""
    again = {line["problem"]: line for line in second}
    return [min(line, again.get(line["problem"], line), key=lambda one: one["regret"]) for line in first]


def measure(kind: str, texts: list[str], options: argparse.Namespace, where: list[str]) -> list[Line]:
    first = measure_once(kind, texts, options, where)
    doubtful = [line["problem"] for line in first if line["regret"] > 1]
    return confirmed(first, measure_once(kind, doubtful, options, where))


def measure_once(kind: str, texts: list[str], options: argparse.Namespace, where: list[str]) -> list[Line]:
    if not texts:
        return []
    with tempfile.TemporaryDirectory() as folder:
        asked, out = Path(folder, "problems"), Path(folder, "tuning")
        asked.write_text("\n".join(texts) + "\n")
        seconds = str(max(1, round(options.seconds * len(texts))))
        words = ["--problems", str(asked), "--out", str(out), "--seconds", seconds, *where]
        done = subprocess.run([COMMAND, "tune", *words], stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 3):
            raise SystemExit(done.returncode)
        return [line_of(kind, json.loads(line)) for line in out.read_text().splitlines()]


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
    head = ["", "problems", "with one candidate, not counted", "median", "geometric mean", "nine of ten below", "worst"]
    return [*paragraph(text), *table(head, rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="problems in all; by default 200, on a GPU 60")
    parser.add_argument("--seconds", type=float, default=2, help="for a problem; by default %(default)s")
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
    origin = machine.origin(name)
    file = options.out or results.BENCH / f"regret-{slug}-{origin['date']}.jsonl"
    lines: list[Line] = []
    for index, kind in enumerate(KINDS):
        drawn = list(problems(kind, (count + 2 - index) // 3, options.seed, where, on_gpu))
        alone = [alone_line(kind, text) for text, choice in drawn if not choice]
        measured = measure(kind, [text for text, choice in drawn if choice], options, where)
        lines += [{**line, **origin} for line in [*alone, *measured]]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print("\n".join(summary(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
