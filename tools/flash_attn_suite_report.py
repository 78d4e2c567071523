"""Reports the outcomes of a sample of a test suite, run by one process or shared by several.

    python tools/flash_attn_suite_report.py PART.log ...

Reads the output of tools/flash_attn_suite.py, complete or not, and prints one report of it all.
"""

from __future__ import annotations

import collections
import re
import sys
from pathlib import Path

OUTCOMES = ("passed", "failed", "refused", "skipped", "stopped")
CASE = re.compile(rf"({'|'.join(OUTCOMES)}) (\S+) [\d.]+ s(?:: (.*))?")


def case_line(outcome: str, name: str, seconds: float, why: str) -> str:
    return f"{outcome} {name} {seconds:.1f} s" + (f": {why}" if why else "")


def read(text: str) -> list[tuple[str, str, str]]:
    """(outcome, name, why) from each line about a case."""
    found = (CASE.fullmatch(line) for line in text.splitlines())
    return [(case[1], case[2], case[3] or "") for case in found if case]


def describe(counts: collections.Counter) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])


def report(cases: list[tuple[str, str, str]]) -> int:
    """Prints the counts, in total and by function, and the reasons; returns 1 if a case failed or was refused."""
    counts = collections.Counter(outcome for outcome, _, _ in cases)
    print(f"\n{len(cases)} cases: {describe(counts)}")
    by_function = collections.defaultdict(collections.Counter)
    for outcome, name, _ in cases:
        by_function[name.partition("[")[0]][outcome] += 1
    for function, of_function in by_function.items():
        print(f"  {function}: {describe(of_function)}")
    for (outcome, why), count in collections.Counter((outcome, why) for outcome, _, why in cases if why).most_common():
        print(f"  {count} {outcome}: {why}")
    return 1 if counts["failed"] or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(report([case for log in sys.argv[1:] for case in read(Path(log).read_text())]))
