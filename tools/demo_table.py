"""Prints the table of ./dev demo; reads one report of `regard run --json` per line from standard input."""

import json
import sys

TIERS = {"built-in": "built in", "compile": "compiled now", "compiled": "compiled now"}


def kernels(plan):
    """The names of the kernels, from keys such as "cpu-avx512 cpu_forward block_q=64 | fwd bf16 ..."."""
    return " + ".join(stage["kernel"].split()[1] for stage in plan["stages"])


def origin(plan):
    tiers = [stage.get("tier", "?") for stage in plan["stages"]]
    return ", ".join(dict.fromkeys(TIERS.get(tier, tier) for tier in tiers))


def check(outputs):
    wrong = [name for name, output in outputs.items() if not output["ok"]]
    return "WRONG: " + ", ".join(wrong) if wrong else ", ".join(outputs) + " ok"


def row(report):
    time, outputs = report["time"], report["check"]["outputs"]
    return {
        "problem": report["problem"],
        "kernels": kernels(report["plan"]),
        "from": origin(report["plan"]),
        "time": f"{time['median_ms']:.2f} ms",
        "GFLOP/s": f"{time['gflops']:.0f}",
        "largest error": f"{max(output['max_absolute'] for output in outputs.values()):.1e}",
        "of the allowed": f"{max(output['worst'] for output in outputs.values()):.0%}",
        "check": check(outputs),
    }


def main():
    reports = [json.loads(line) for line in sys.stdin if line.strip()]
    if not reports:
        sys.exit("no problem ran; see above")
    rows = [row(report) for report in reports]
    table = [list(rows[0])] + [list(cells.values()) for cells in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    plan = reports[0]["plan"]
    print(f"\non {plan['target']}, {plan['threads']} threads")


if __name__ == "__main__":
    main()
