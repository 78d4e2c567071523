"""Prints the table of ./dev demo: reads one report of `regard run --json` per line of standard input."""

import json
import sys

TIERS = {
    "embedded": "built into the library",
    "bundle": "from a bundle",
    "cache": "from the cache",
    "compile": "compiled just now",
    "compiled": "compiled just now",
}


def kernels(plan):
    """The kernels' names, from their keys such as "cpu-avx512 forward block_q=64 | fwd bf16 ..."."""
    return " + ".join(stage["kernel"].split()[1] for stage in plan["stages"])


def origin(plan):
    tiers = {TIERS.get(stage.get("tier"), stage.get("tier", "?")) for stage in plan["stages"]}
    return ", ".join(sorted(tiers))


def check(report):
    wrong = [output["output"] for output in report["check"]["outputs"] if not output["ok"]]
    return "WRONG: " + ", ".join(wrong) if wrong else "ok"


def row(report):
    time = report["time"]
    return {
        "problem": report["problem"],
        "kernels": f"{kernels(report['plan'])} ({origin(report['plan'])})",
        "target": report["plan"]["target"],
        "time": f"{time['median_ms']:.2f} ms",
        "GFLOP/s": f"{time['gflops']:.0f}",
        "result": check(report),
    }


def main():
    rows = [row(json.loads(line)) for line in sys.stdin if line.strip()]
    table = [list(rows[0])] + [list(cells.values()) for cells in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    main()
