"""`python -m regard`, and the command `regard` that pip installs: both run the program inside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "bin" / "regard"


def main() -> None:
    """The program replaces this process, so that signals and exit codes are its own. `bench --peers` runs the first
    python3 on PATH, which is then this one."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        os.execv(PROGRAM, ["regard", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"regard: cannot run the command of this package, {PROGRAM}: {error.strerror}; install regard again")


if __name__ == "__main__":
    main()
