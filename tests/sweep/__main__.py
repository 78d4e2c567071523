"""Every model class of the installed transformers, eager attention against Regard's.

python -m tests.sweep [--eighth=N | --eighth=today] [--only=WORD] [--jobs=N] [--resume]

Without --eighth and --only everything is swept, and docs/results/transformers.md is written. Fails if a model gives a
wrong result, or if a model is refused or left out that the page, before this run, does not name.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path

os.environ.setdefault("REGARD_JIT", "off")  # the generic kernels: the sweep tests the front end
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from . import page, processes  # noqa: E402

RESULTS = Path(__file__).parents[2] / "build/sweep/results.jsonl"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eighth", metavar="N", help="0 to 7, or today: that of the day of the year")
    parser.add_argument("--only", default="", metavar="WORD", help="modules whose name has it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--resume", action="store_true", help="go on where the last run ended")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    modules = [name for name in processes.modules() if options.only in name]
    whole = options.eighth is None and not options.only
    if options.eighth is not None:
        eighth = datetime.date.today().timetuple().tm_yday % 8 if options.eighth == "today" else int(options.eighth)
        modules = modules[eighth::8]
        print(f"the eighth {eighth} of all models: {len(modules)} modules; again with --eighth={eighth}", flush=True)
    if not options.resume:
        RESULTS.unlink(missing_ok=True)
    results = processes.run(modules, RESULTS, options.jobs)
    bad = page.complaints(results, page.PAGE.read_text() if page.PAGE.exists() else "")
    if whole:
        page.write(results)
    print("\n".join([*bad, page.summary(results)]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
