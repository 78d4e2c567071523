"""Runs the examples of examples/gallery and compares what they print with the index there.

gallery.py [--tenth=N | --tenth=today] [--only=WORD] [--target=cpu] [--jobs=N] [--write]

C++ examples are built against an installed copy of the library. The index has an ellipsis in place of measured numbers.
What is printed on a GPU is not compared. --write takes over new outputs.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "examples/gallery"
INDEX = GALLERY / "README.md"
BEGIN = "<!-- generated from the code; tools/gallery.py --write writes it anew -->\n"
END = "<!-- end of the generated part -->\n"
LANGUAGES = {"python": ("Python", "*_*.py"), "cpp": ("C++", "*_*.cpp")}
MEASURED = re.compile(r"\d[\d.]*(?= (us|ms|GFLOP/s|GB/s)\b)")
SECTION = re.compile(r"^### .*\n.* \[(.*)\]\(\1\)\n```console\n\$ .*\n((?:.*\n)*?)```\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(GALLERY))

    @property
    def cpp(self) -> bool:
        return self.path.suffix == ".cpp"

    def about(self) -> str:
        """The text at its top."""
        text = self.path.read_text()
        if self.cpp:
            lines = re.match(r"(?:// .*\n)+", text).group()
            return " ".join(line.removeprefix("// ") for line in lines.splitlines())
        return " ".join(re.match(r'"""(.*?)"""', text, re.DOTALL).group(1).split())

    def section(self, printed: str) -> str:
        number, words = self.path.stem.split("_", 1)
        command = f"build/{self.path.stem}" if self.cpp else f"python {self.name}"
        title = f"### {number} {words.replace('_', ' ')}"  # a link in a heading is more than Sphinx takes
        return f"{title}\n{self.about()} [{self.name}]({self.name})\n```console\n$ {command}\n{printed}```\n"


def examples() -> list[Example]:
    found = [path for folder, (_, glob) in LANGUAGES.items() for path in sorted((GALLERY / folder).glob(glob))]
    return [Example(path) for path in found if path.name[0].isdigit()]


def indexed() -> dict[str, str]:
    return dict(SECTION.findall(INDEX.read_text()))


def write_index(printed: dict[str, str]) -> None:
    head, _, rest = INDEX.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    parts = []
    for folder, (title, _) in LANGUAGES.items():
        own = [example for example in examples() if example.name.startswith(folder) and example.name in printed]
        if own:
            parts.append(f"## {title}\n" + "\n".join(example.section(printed[example.name]) for example in own))
    INDEX.write_text(f"{head}{BEGIN}" + "\n".join(parts) + END + tail)


def run(command: list[object]) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{command[-1]} failed (exit {done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def build_cpp(chosen: list[Example], jobs: int) -> Path:
    """The folder of the programs, built against an installed copy of the library."""
    built, folder = Path(os.environ.get("BUILD_DIR", ROOT / "build/release")), ROOT / "build/gallery"
    run(["cmake", "--install", built, "--prefix", folder / "prefix"])
    cpp = GALLERY / "cpp"
    run(["cmake", "-S", cpp, "-B", folder / "cpp", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}"])
    targets = [example.path.stem for example in chosen]
    run(["cmake", "--build", folder / "cpp", "-j", jobs, "--target", *targets])
    return folder / "cpp"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenth", metavar="N", help="0 to 9, or today: that of the day of the year")
    parser.add_argument("--only", metavar="WORD", default="", help="those whose path has the word")
    parser.add_argument("--target", default="cpu", help="cpu, cuda or hip")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    known = indexed()
    chosen = [example for example in examples() if options.only in example.name]
    if options.tenth is not None:
        tenth = datetime.date.today().timetuple().tm_yday % 10 if options.tenth == "today" else int(options.tenth)
        chosen = chosen[tenth::10]
        print(f"the tenth {tenth} of the gallery; again with --tenth={tenth}")
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: the Python examples are left out")
        chosen = [example for example in chosen if example.cpp]
    of_cpp = [example for example in chosen if example.cpp]
    programs = build_cpp(of_cpp, options.jobs) if of_cpp else None

    def outcome(example: Example) -> tuple[Example, str | None, str]:
        program = [programs / example.path.stem] if example.cpp else [sys.executable, example.path]
        try:
            return example, MEASURED.sub("…", run([*program, f"--target={options.target}"])), ""
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return example, None, str(error)

    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for example, printed, error in pool.map(outcome, chosen):
            if printed is not None and options.write:
                known[example.name] = printed
            elif printed is not None and options.target == "cpu" and known.get(example.name) != printed:
                error = f"it printed what the index does not have (--write takes it over):\n{printed}"
            print(f"{'FAILED' if error else 'ok'} {example.name}{': ' if error else ''}{error}", flush=True)
            wrong += bool(error)
    if options.write:
        write_index(known)
    listed = options.write or {example.name for example in examples()} == known.keys()
    print(f"{len(chosen) - wrong} of {len(chosen)} examples are right")
    if not listed:
        print("the index lists other examples than there are; --write mends it")
    return wrong > 0 or not listed


if __name__ == "__main__":
    sys.exit(main())
