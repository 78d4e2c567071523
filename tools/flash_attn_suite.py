"""Runs a sample of a test suite that was written for flash_attn against regard.flash_attn.

    python tools/flash_attn_suite.py FOLDER/test_flash_attn.py --device cpu --count 200 --longest 512

The suite's files are used unchanged, except for the name of the device. Every test function occurs in the sample, which
depends only on --seed; --jobs=8 shares it among eight processes, of which each one runs a --part. Prints the outcome of
each case, and at the end how many passed, failed, were refused or were skipped, and why; flash_attn_suite_report.py
does so for the outputs of several runs together.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from flash_attn_suite_report import case_line, read, report

import regard.flash_attn
from regard.errors import NoKernelError, RefusedError


class OnDevice(importlib.machinery.SourceFileLoader):
    """Loads a file so that its tensors are on another device."""

    device = "cuda"

    def get_code(self, fullname):
        source = Path(self.path).read_text().replace('"cuda"', f'"{self.device}"')
        return compile(source, self.path, "exec", dont_inherit=True)


class Suite(importlib.abc.MetaPathFinder):
    """Finds the files next to the suite, unless the package that replaces flash_attn has modules of their names."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, fullname, path, target=None):
        file = self.folder / f"{fullname}.py"
        if path is not None or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=OnDevice(fullname, str(file)))


def pretend_to_have_a_gpu():
    """For runs on a CPU: suites query the GPU before they choose their cases."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    torch.cuda.get_device_properties = lambda device=None: types.SimpleNamespace(
        total_memory=memory, multi_processor_count=os.cpu_count()
    )


class Test:
    """A test function and the values of its parameters; each combination is a case."""

    def __init__(self, function):
        marks = getattr(function, "pytestmark", [])
        self.function = function
        self.skipped = [mark.kwargs.get("reason", "") for mark in marks if mark.name == "skipif" and mark.args[0]]
        self.parameters = []  # of each decorator, from the function upwards, as in pytest's ids
        for mark in marks:
            if mark.name == "parametrize":
                names, values = mark.args[0], list(mark.args[1])
                names = names if isinstance(names, (list, tuple)) else [name.strip() for name in names.split(",")]
                self.parameters.append((names, values))

    def count(self):
        return math.prod(len(values) for _, values in self.parameters)

    def case(self, number):
        """The arguments of a combination, and its id in pytest's form."""
        arguments, words = {}, []
        for names, values in self.parameters:
            number, index = divmod(number, len(values))
            chosen = values[index] if len(names) > 1 else (values[index],)
            arguments |= dict(zip(names, chosen))
            words += [describe(name, value, index) for name, value in zip(names, chosen)]
        return arguments, self.function.__name__ + (f"[{'-'.join(words)}]" if words else "")


def describe(name, value, index):
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value)
    return getattr(value, "__name__", f"{name}{index}")


def is_wanted(arguments, name, options):
    sizes = [value for word, value in arguments.items() if word.startswith("seqlen") and isinstance(value, int)]
    short = max(sizes, default=0) <= options.longest
    named = not options.only or any(text in name for text in options.only)
    return short and named and not any(text in name for text in options.without)


def may_be_named(test, only):
    """False for functions none of whose ids can contain any of these texts, found without making the ids."""
    names = [text.partition("[")[0] for text in only if "[" in text]
    return not only or len(names) < len(only) or any(test.function.__name__.endswith(name) for name in names)


def drawn(test, options):
    """Cases of a function, in an order determined by the seed and its name."""
    if not may_be_named(test, options.only):
        return
    count = test.count()
    chance = random.Random(f"{options.seed} {test.function.__name__}")
    for number in chance.sample(range(count), count if options.only else min(count, 50 * options.count)):
        arguments, name = test.case(number)
        if is_wanted(arguments, name, options):
            yield test, arguments, name


def sample(tests, options):
    """Cases from all functions in turn, until there are enough or no more."""
    rounds = itertools.zip_longest(*[drawn(test, options) for test in tests])
    found = (case for cases in rounds for case in cases if case is not None)
    return list(itertools.islice(found, options.count))


def part_of(cases, options):
    """A part of the shuffled cases, so that no part has all of the slow functions."""
    first, parts = options.part
    if parts > 1:
        random.Random(options.seed).shuffle(cases)
    return cases[first - 1 :: parts]


def read_part(text):
    first, _, parts = text.partition("/")
    if not (first.isdecimal() and parts.isdecimal() and 1 <= int(first) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text} is no part; the second of eight is 2/8")
    return int(first), int(parts)


class TookTooLong(Exception):
    pass


def stop(*_):
    raise TookTooLong


def reason_of(error):
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    said = str(error).strip().partition("\n")[0][:200]
    where = next((frame for frame in reversed(frames) if frame.startswith("test_")), frames[-1])
    return f"{type(error).__name__} at {where}: {said}"


def run(test, arguments, options):
    """The outcome of a case, and the reason."""
    if test.skipped:
        return "skipped", test.skipped[0]
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(options.seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            test.function(**arguments)
    except pytest.skip.Exception as skip:
        return "skipped", str(skip) or "by the suite, for this combination"
    except TookTooLong:
        return "stopped", f"took more than {options.seconds} s"
    except (RefusedError, NoKernelError) as error:
        return "refused", str(error).partition("\n")[0]
    except torch.OutOfMemoryError as error:
        return "failed", reason_of(error).partition(". ")[0]
    except (Exception, pytest.fail.Exception) as error:
        return "failed", reason_of(error)
    finally:
        signal.alarm(0)
    return "passed", ""


def run_part(options, number):
    """The cases of a part that another process runs. Prints those that did not pass or were skipped by the suite."""
    part = f"{number}/{options.jobs}"
    command = [sys.executable, __file__, *sys.argv[1:], "--jobs", "1", "--part", part]
    cases = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            found = read(line.rstrip("\n"))
            cases += found
            if any(outcome not in ("passed", "skipped") for outcome, _, _ in found):
                print(line, end="", flush=True)
    if process.returncode not in (0, 1):
        cases.append(("failed", f"part[{part}]", f"the process ended with {process.returncode}"))
    return cases


def run_parts(options):
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = pool.map(lambda number: run_part(options, number), range(1, options.jobs + 1))
        return report([case for cases in parts for case in cases])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--flavour", default="cuda", choices=("cuda", "ck"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--part", type=read_part, default=(1, 1), metavar="2/8", help="run every eighth, from the 2nd")
    parser.add_argument("--jobs", type=int, default=1, help="share the cases among so many processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=int, default=1 << 30, help="leave out cases with longer sequences")
    parser.add_argument("--seconds", type=int, default=300, help="stop a case after so many")
    parser.add_argument("--only", nargs="*", default=[], help="only cases whose id has one of these texts")
    parser.add_argument("--without", nargs="*", default=[], help="no case whose id has one of these texts")
    options = parser.parse_args()
    if options.jobs > 1:
        print(f"{options.suite.name}: seed {options.seed}")
        return run_parts(options)

    OnDevice.device = options.device
    if options.device == "cpu":
        pretend_to_have_a_gpu()
    sys.meta_path.insert(0, Suite(options.suite.resolve().parent))
    regard.flash_attn.register(options.flavour)
    module = importlib.import_module(options.suite.stem)
    tests = [Test(value) for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
    count = sum(test.count() for test in tests)
    print(f"{options.suite.name}: {count} cases of {len(tests)} test functions, seed {options.seed}")

    cases = []
    for test, arguments, name in part_of(sample(tests, options), options):
        start = time.monotonic()
        outcome, why = run(test, arguments, options)
        cases.append((outcome, name, why))
        print(case_line(outcome, name, time.monotonic() - start, why), flush=True)
        with contextlib.suppress(RuntimeError):  # after a device error
            torch.cuda.empty_cache()  # the other parts may need it
    return report(cases)


if __name__ == "__main__":
    sys.exit(main())
