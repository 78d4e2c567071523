"""count_tests.py REPORTS PASSED_STEPS FAILED_STEPS...: prints the closing line of ./dev test.

Counts the test cases of the JUnit reports below REPORTS. A step that wrote no report counts as one test, and a
failed step counts as at least one failure, whatever its report says.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


def main():
    reports, passed_steps, failed_steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    counts = {"passed": passed_steps, "failed": 0, "skipped": 0}
    for path in sorted(reports.rglob("*.xml")):
        try:
            for case in ElementTree.parse(path).iter("testcase"):
                counts[outcome(case)] += 1
        except ElementTree.ParseError:
            counts["failed"] += 1
    counts["failed"] = max(counts["failed"], failed_steps)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


if __name__ == "__main__":
    main()
